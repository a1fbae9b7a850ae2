// SPDX-License-Identifier: Apache-2.0
//
// compile_kernels ARCH OUT FILE.mlir...: compiles plan.kernels by themselves, as the compiler would inside a package.
// FILE is what `ditc compile --dump` writes for a kernel, or written by hand; ARCH also sm_90, which is Hopper with the
// kernels of other architectures, so that its GPUs run these. OUT gets kernels.json, the images and their sources, and
// resources.json. For the bundles of tests/gpu; needs NVRTC, no GPU.
#include "codegen/cuda/CudaTarget.h"
#include "runtime/Error.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

using namespace ditc;
namespace fs = std::filesystem;

namespace {

void writeFile(const fs::path &path, const void *data, size_t size) {
  fs::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(static_cast<const char *>(data), static_cast<std::streamsize>(size));
  if (!out.flush())
    fail("cannot write '{}'", path.string());
}

void writeFile(const fs::path &path, const std::string &text) { writeFile(path, text.data(), text.size()); }

std::optional<CudaArch> archOf(std::string_view name) { return name == "sm_90" ? CudaArch{"sm_90", 90} : parseCudaArch(name); }

/// All kernels of the files; a name that comes again is the same kernel.
mlir::OwningOpRef<mlir::ModuleOp> readKernels(mlir::MLIRContext &context, char **first, char **last) {
  mlir::OwningOpRef<mlir::ModuleOp> all = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  for (char **file = first; file != last; ++file) {
    auto module = mlir::parseSourceFile<mlir::ModuleOp>(*file, &context);
    if (!module)
      fail("cannot parse '{}'", *file);
    for (plan::KernelOp kernel : llvm::make_early_inc_range(module->getOps<plan::KernelOp>()))
      if (!all->lookupSymbol(kernel.getSymName()))
        kernel->moveBefore(all->getBody(), all->getBody()->end());
  }
  return all;
}

void write(const CudaObject &object, const fs::path &folder) {
  writeFile(folder / "kernels.json", cuda::writeKernelFile(object.file));
  nlohmann::json resources;
  for (const CudaKernel &kernel : object.kernels) {
    const cuda::KernelImage *image = object.file.find(kernel.name);
    fs::path path = folder / image->image;
    writeFile(path, kernel.image.data(), kernel.image.size());
    writeFile(path.replace_extension(".cu"), kernel.source);
    resources[kernel.name] = {{"registers", kernel.registers}, {"shared_bytes", kernel.sharedBytes}, {"spill_bytes", kernel.spillBytes}};
    fmt::print("{:40} {:>7} x {:<4} {:>4} registers {:>4} spilled\n", kernel.name, image->launch.grid[0], image->launch.threads, kernel.registers,
               kernel.spillBytes);
  }
  writeFile(folder / "resources.json", resources.dump(1) + "\n");
}

} // namespace

int main(int argc, char **argv) try {
  std::optional<CudaArch> arch = argc < 4 ? std::nullopt : archOf(argv[1]);
  if (!arch) {
    fmt::print(stderr, "usage: compile_kernels ARCH OUT FILE.mlir...\n");
    return 2;
  }
  mlir::MLIRContext context;
  context.loadDialect<dit::DitDialect, plan::PlanDialect, mlir::arith::ArithDialect, mlir::math::MathDialect>();
  mlir::OwningOpRef<mlir::ModuleOp> module = readKernels(context, argv + 3, argv + argc);
  mlir::FailureOr<CudaObject> object = emitCuda(*module, *arch);
  if (mlir::failed(object))
    return 1;
  write(*object, argv[2]);
  return 0;
} catch (const Error &error) {
  fmt::print(stderr, "compile_kernels: {}\n", error.what());
  return 1;
}
