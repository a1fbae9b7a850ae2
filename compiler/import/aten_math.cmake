# Rows of the ATen table that compute: element-wise, reductions, norms, products, attention, convolution.
set(DITC_ATEN_MATH_SOURCES
  Num.cpp Elementwise.cpp Reductions.cpp
  AtenPointwise.cpp AtenUnary.cpp AtenActivations.cpp AtenBinary.cpp
  AtenComparisons.cpp AtenTernary.cpp
  AtenReductions.cpp AtenQuantiles.cpp AtenStatistics.cpp AtenNorms.cpp
  AtenMatmul.cpp AtenEinsum.cpp AtenAttention.cpp AtenLayers.cpp
  AtenConv.cpp AtenPooling.cpp AtenResample.cpp AtenSample.cpp AtenFourier.cpp)
