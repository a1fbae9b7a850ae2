# zstd, always as a static library: a deployed program needs no libzstd.so, and the one that libLLVM.so loads meets no
# second one in the compiler. Its symbols are hidden, so neither takes the other's place.
find_path(ZSTD_INCLUDE_DIR zstd.h REQUIRED)
find_library(ZSTD_STATIC_LIBRARY NAMES libzstd.a REQUIRED DOC "libzstd.a (Debian: libzstd-dev, Fedora: libzstd-static)")
mark_as_advanced(ZSTD_INCLUDE_DIR ZSTD_STATIC_LIBRARY)

add_library(ditc_zstd INTERFACE)
target_include_directories(ditc_zstd SYSTEM INTERFACE ${ZSTD_INCLUDE_DIR})
target_link_libraries(ditc_zstd INTERFACE ${ZSTD_STATIC_LIBRARY})
target_link_options(ditc_zstd INTERFACE -Wl,--exclude-libs,libzstd.a)
