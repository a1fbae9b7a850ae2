// SPDX-License-Identifier: Apache-2.0
#include "codegen/templates/hopper/Catalogue.h"

namespace ditc {

Catalogue hopperCatalogue() {
  Catalogue catalogue;
  catalogue.push_back(makeAttentionTemplate());
  catalogue.push_back(makeGemvTemplate()); // before gemm: few rows are bound by the weights' bytes
  catalogue.push_back(makeGemmTemplate());
  catalogue.push_back(makeConvTemplate());
  catalogue.push_back(makeRowwiseTemplate());
  catalogue.push_back(makeLayoutTemplate());
  return catalogue;
}

} // namespace ditc
