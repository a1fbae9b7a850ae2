# Lit configuration: textual IR tests. Run by CTest, or by hand: lit tests/passes
import os
import lit.formats

config.name = "ditc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
build = os.environ.get("DITC_BUILD_DIR", os.path.join(config.test_source_root, "..", "build"))
llvm_tools = os.environ.get("DITC_LLVM_TOOLS_DIR", "/usr/lib/llvm-22/bin")
config.test_exec_root = os.path.join(build, "lit")
config.environment["PATH"] = os.pathsep.join([os.path.join(build, "bin"), llvm_tools, os.environ["PATH"]])
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --dump-input=fail"
for name in ("DITC_CACHE_DIR", "HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.substitutions.append(("%models", os.path.join(config.test_source_root, "models")))
config.substitutions.append(("%stub_nvrtc", os.path.join(build, "tests", "libstub_nvrtc.so")))
fakes = {"NVRTC": "nvrtc", "CUDA_DRIVER": "cuda", "CUBLASLT": "cublasLt"}  # of tests/cuda_emulator
config.substitutions.append(("%emulated", "env " + " ".join(f"DITC_{name}={build}/lib/libfake_{library}.so" for name, library in fakes.items())))
