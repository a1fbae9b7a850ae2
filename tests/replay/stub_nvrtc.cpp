// SPDX-License-Identifier: Apache-2.0
//
// libstub_nvrtc.so: an NVRTC that compiles nothing. The replay test compares the sources that are handed to it, for
// which neither a CUDA toolkit nor the time of a compilation is needed. Its log is the text of DITC_STUB_LOG, where a test
// wants the assembler to say something.
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace {

constexpr char kImage[] = "stub";
int program;

const char *givenLog() {
  const char *text = std::getenv("DITC_STUB_LOG");
  return text ? text : "";
}

} // namespace

extern "C" {

int nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 2000; // caches tell images apart by the version
  return 0;
}
const char *nvrtcGetErrorString(int) { return "none"; }
int nvrtcCreateProgram(void **out, const char *, const char *, int, const char *const *, const char *const *) {
  *out = &program;
  return 0;
}
int nvrtcDestroyProgram(void **) { return 0; }
int nvrtcCompileProgram(void *, int, const char *const *) { return 0; }

#define STUB_TEXT(name, text)                                                                                \
  int nvrtcGet##name##Size(void *, size_t *size) {                                                           \
    *size = sizeof(text);                                                                                    \
    return 0;                                                                                                \
  }                                                                                                          \
  int nvrtcGet##name(void *, char *out) {                                                                    \
    std::memcpy(out, text, sizeof(text));                                                                    \
    return 0;                                                                                                \
  }
STUB_TEXT(CUBIN, kImage)
STUB_TEXT(PTX, kImage)
int nvrtcGetProgramLogSize(void *, size_t *size) {
  *size = std::strlen(givenLog()) + 1;
  return 0;
}
int nvrtcGetProgramLog(void *, char *out) {
  std::strcpy(out, givenLog());
  return 0;
}

} // extern "C"
