// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/RemarkCollector.h"

#include "runtime/Error.h"

#include "mlir/IR/Remarks.h"

#include <cstdlib>

using namespace mlir;

namespace ditc {

namespace {

class Streamer : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit Streamer(std::shared_ptr<std::vector<FusionRemark>> remarks) : remarks(std::move(remarks)) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    FusionRemark result;
    result.passed = remark.getRemarkType() == llvm::remarks::Type::Passed;
    result.pass = remark.getRemarkName().str();
    result.function = remark.getFunction().str();
    for (const auto &arg : remark.getArgs())
      result.facts[arg.key] = arg.val;
    remarks->push_back(std::move(result));
  }

private:
  std::shared_ptr<std::vector<FusionRemark>> remarks;
};

} // namespace

std::string FusionRemark::fact(const std::string &name) const {
  auto found = facts.find(name);
  return found == facts.end() ? "" : found->second;
}

double FusionRemark::number(const std::string &name) const { return std::strtod(fact(name).c_str(), nullptr); }

RemarkCollector::RemarkCollector(MLIRContext &context) : remarks(std::make_shared<std::vector<FusionRemark>>()) {
  // All four filters: `all` alone lets nothing through.
  remark::RemarkCategories categories{.all = std::nullopt, .passed = "fusion", .missed = "fusion", .analysis = "fusion", .failed = "fusion"};
  if (failed(remark::enableOptimizationRemarks(context, std::make_unique<Streamer>(remarks), std::make_unique<remark::RemarkEmittingPolicyAll>(), categories)))
    failInternal("fusion remarks cannot be collected");
}

std::vector<FusionRemark> RemarkCollector::take() {
  std::vector<FusionRemark> taken;
  taken.swap(*remarks);
  return taken;
}

} // namespace ditc
