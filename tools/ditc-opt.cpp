// SPDX-License-Identifier: Apache-2.0
//
// ditc-opt: runs single passes on textual IR, for tests and for looking.
#include "codegen/cuda/CudaTarget.h"
#include "codegen/templates/hopper/Catalogue.h"
#include "dialects/dit/Dit.h"
#include "dialects/plan/Plan.h"
#include "passes/GroupKernels.h"
#include "passes/LegalizeForCuda.h"
#include "passes/Passes.h"
#include "passes/PlanAttention.h"
#include "passes/PlanConvolutions.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<ditc::dit::DitDialect, ditc::plan::PlanDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::func::FuncDialect>();
  mlir::registerTransformsPasses();
  ditc::registerConvToMatmul();
  ditc::registerFoldConstants();
  ditc::registerFuseMaps();
  ditc::registerLegalizeForHost();
  ditc::registerLowerToPlan();
  ditc::registerMarkInvariant();
  ditc::registerOrderLaunches();
  ditc::registerPlanMemory();
  ditc::registerQuantizeAttention();
  ditc::registerQuantizeProducts();
  ditc::registerRecogniseAttention();
  ditc::registerRecogniseLinearAttention();
  ditc::registerRecogniseNorms();
  ditc::registerSimplifyAttention();
  ditc::registerHoistSlices();
  ditc::registerNarrowAttention();
  ditc::registerNarrowTables();
  ditc::registerPadAddends();
  ditc::registerRotateAllRows();
  ditc::registerSinkConcats();
  ditc::registerArrangeRows();
  ditc::registerSinkRepeats();
  ditc::registerSplitMaps();
  ditc::registerSplitNorms();
  ditc::registerSplitSums();
  mlir::registerPass([] { return ditc::createLegalizeForCuda(ditc::cudaTargetKernels(*ditc::parseCudaArch("sm_80"), /*keepRoundings=*/true)); });
  mlir::PassPipelineRegistration<> forHopper("ditc-legalize-for-sm90a", "LegalizeForCuda with the kernels of sm_90a", [](mlir::OpPassManager &pm) {
    pm.addNestedPass<mlir::func::FuncOp>(ditc::createLegalizeForCuda(ditc::cudaTargetKernels(*ditc::parseCudaArch("sm_90a"))));
  });
  mlir::registerPass([] { return ditc::createPlanConvolutions(ditc::cudaTargetKernels(*ditc::parseCudaArch("sm_90a"))); });
  mlir::registerPass([] { return ditc::createPlanAttention(ditc::cudaTargetKernels(*ditc::parseCudaArch("sm_90a"))); });
  mlir::registerPass([] { return ditc::createGroupKernels(std::make_shared<const ditc::Catalogue>(ditc::hopperCatalogue())); });
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "ditc's passes on textual IR\n", registry));
}
