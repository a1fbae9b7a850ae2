// SPDX-License-Identifier: Apache-2.0
//
// libfake_nvrtc.so: NVRTC's C interface over a compiler for the CPU (DITC_NVRTC names the library). A "cubin", and also
// "PTX", is a shared object that libfake_cuda.so loads and runs.
#include "UnitCompiler.h"

#include <cstring>
#include <exception>

namespace {

enum Status {
  Success = 0,
  InvalidInput = 3,
  InvalidProgram = 4,
  InvalidOption = 5,
  CompilationFailed = 6,
  Internal = 11
};

struct Program {
  emulator::UnitSource source;
  emulator::CompiledUnit compiled;
};

bool startsWith(const std::string &text, const char *prefix) { return text.rfind(prefix, 0) == 0; }

/// NVRTC's options that mean something for the CPU, as the host compiler has them; false for an option that NVRTC does
/// not have either.
bool translateOption(const std::string &option, const std::string &next, Program &program, bool &tookNext) {
  auto valueOf = [&](const char *name) -> std::string {
    if (option == name) {
      tookNext = true;
      return next;
    }
    std::string withEquals = std::string(name) + "=";
    return startsWith(option, withEquals.c_str()) ? option.substr(withEquals.size()) : "";
  };
  for (const char *name : {"--gpu-architecture", "-arch"})
    if (std::string value = valueOf(name); !value.empty()) {
      program.source.arch = value;
      return startsWith(value, "sm_") || startsWith(value, "compute_");
    }
  for (auto [name, host] : {std::pair("--define-macro", "-D"), {"--include-path", "-I"}, {"--undefine-macro", "-U"}})
    if (std::string value = valueOf(name); !value.empty()) {
      program.source.options.push_back(host + value);
      return true;
    }
  if (startsWith(option, "-D") || startsWith(option, "-I") || startsWith(option, "-U")) {
    program.source.options.push_back(option);
    return true;
  }
  // What concerns machine code only.
  for (const char *ignored : {"--std=",
                              "-std=",
                              "--ptxas-options",
                              "-Xptxas",
                              "--use_fast_math",
                              "-use_fast_math",
                              "--fmad",
                              "-fmad",
                              "--ftz",
                              "-ftz",
                              "--prec-div",
                              "--prec-sqrt",
                              "--extra-device-vectorization",
                              "-lineinfo",
                              "--generate-line-info",
                              "--maxrregcount",
                              "-maxrregcount",
                              "-default-device",
                              "--device-as-default-execution-space",
                              "--diag-suppress",
                              "-diag-suppress",
                              "--restrict",
                              "-restrict",
                              "--split-compile",
                              "--minimal",
                              "--dopt",
                              "--device-debug",
                              "-G",
                              "-w",
                              "--disable-warnings",
                              "--no-source-include",
                              "--pch"})
    if (startsWith(option, ignored)) {
      tookNext = option == "-Xptxas";
      return true;
    }
  return false;
}

void copyText(const std::string &text, char *to) { memcpy(to, text.c_str(), text.size() + 1); }

} // namespace

#define EXPORT extern "C" [[gnu::visibility("default")]]

EXPORT int nvrtcVersion(int *major, int *minor) {
  *major = 13, *minor = 1000 + static_cast<int>(emulator::emulatorVersion()); // caches tell images apart by the version
  return Success;
}

EXPORT const char *nvrtcGetErrorString(int status) {
  switch (status) {
  case Success:
    return "NVRTC_SUCCESS";
  case InvalidInput:
    return "NVRTC_ERROR_INVALID_INPUT";
  case InvalidProgram:
    return "NVRTC_ERROR_INVALID_PROGRAM";
  case InvalidOption:
    return "NVRTC_ERROR_INVALID_OPTION";
  case CompilationFailed:
    return "NVRTC_ERROR_COMPILATION";
  default:
    return "NVRTC_ERROR_INTERNAL_ERROR";
  }
}

EXPORT int nvrtcCreateProgram(Program **program, const char *text, const char *name, int headerCount,
                              const char *const *headers, const char *const *headerNames) {
  if (!program || !text || headerCount < 0)
    return InvalidInput;
  *program = new Program;
  (*program)->source.text = text;
  (*program)->source.name = name ? name : "default_program";
  for (int i = 0; i < headerCount; ++i)
    (*program)->source.headers.emplace_back(headerNames[i], headers[i]);
  return Success;
}

EXPORT int nvrtcDestroyProgram(Program **program) {
  if (!program || !*program)
    return InvalidProgram;
  delete *program;
  *program = nullptr;
  return Success;
}

EXPORT int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
  if (!program)
    return InvalidProgram;
  for (int i = 0; i < count; ++i) {
    bool tookNext = false;
    if (!translateOption(options[i], i + 1 < count ? options[i + 1] : "", *program, tookNext)) {
      program->compiled.log = std::string("nvrtc: error: unrecognized option ") + options[i] + " found\n";
      return InvalidOption;
    }
    i += tookNext;
  }
  try {
    program->compiled = emulator::compileUnit(program->source);
  } catch (const std::exception &error) {
    program->compiled.log = error.what();
    return Internal;
  }
  return program->compiled.success ? Success : CompilationFailed;
}

EXPORT int nvrtcGetCUBINSize(Program *program, size_t *bytes) {
  if (!program || !program->compiled.success)
    return InvalidProgram;
  *bytes = program->compiled.image.size();
  return Success;
}

EXPORT int nvrtcGetCUBIN(Program *program, char *image) {
  if (!program || !program->compiled.success)
    return InvalidProgram;
  memcpy(image, program->compiled.image.data(), program->compiled.image.size());
  return Success;
}

EXPORT int nvrtcGetPTXSize(Program *program, size_t *bytes) { return nvrtcGetCUBINSize(program, bytes); }
EXPORT int nvrtcGetPTX(Program *program, char *image) { return nvrtcGetCUBIN(program, image); }

EXPORT int nvrtcGetProgramLogSize(Program *program, size_t *bytes) {
  if (!program)
    return InvalidProgram;
  *bytes = program->compiled.log.size() + 1;
  return Success;
}

EXPORT int nvrtcGetProgramLog(Program *program, char *log) {
  if (!program)
    return InvalidProgram;
  copyText(program->compiled.log, log);
  return Success;
}
