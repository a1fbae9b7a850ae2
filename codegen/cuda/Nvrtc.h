// SPDX-License-Identifier: Apache-2.0
//
// CUDA C++ to machine code by NVRTC, which is found at run time: ditc builds and tests on machines that have no CUDA
// toolkit, and needs no GPU to compile for one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ditc {

/// One translation unit. Headers are given by the name under which they are included, with their text.
struct CudaSource {
  std::string name;  ///< appears in messages, like a file name
  std::string text;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string arch = "sm_90a";       ///< sm_NN for machine code, compute_NN for PTX
  std::vector<std::string> options;  ///< beside the architecture and the language standard
};

struct CudaBinary {
  std::vector<uint8_t> image;  ///< a cubin, or PTX for a compute_ architecture
  std::string log;             ///< warnings, and the assembler's resource report

  /// The number before `what` in that report: "registers", "bytes smem", "bytes spill stores".
  std::optional<int> reported(const std::string &what) const;
  /// Whether the assembler makes products of tensor cores wait for each other, which costs a Hopper kernel a third of its speed.
  bool serializesProducts() const { return log.find("wgmma.mma_async instructions are serialized") != std::string::npos; }
};

/// The library, loaded once per process. All functions may be called from several threads at a time.
class Nvrtc {
public:
  /// Throws an Error that lists the places that were searched.
  static const Nvrtc &get();
  /// The same as a question; `whyNot` receives the text of the error.
  static bool available(std::string *whyNot = nullptr);

  /// Throws an Error with the compiler's log.
  CudaBinary compile(const CudaSource &source) const;

  /// What it can compile for, as in {75, 80, 90}; empty when it does not tell.
  std::vector<int> architectures() const;
  std::pair<int, int> version() const { return {major, minor}; }
  const std::string &path() const { return libraryPath; }

private:
  Nvrtc();
  struct Functions;
  const Functions *functions;
  std::string libraryPath;
  int major = 0, minor = 0;
};

} // namespace ditc
