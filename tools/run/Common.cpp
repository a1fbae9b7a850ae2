// SPDX-License-Identifier: Apache-2.0
//
// What the subcommands share: opening a session, memory for tensors, numbers for people.
#include "tools/run/Commands.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace ditc::run {

std::shared_ptr<Session> openSession(const SessionArgs &args) {
  SessionOptions options;
  options.device = args.device;
  options.threads = args.threads;
  options.weightFiles = args.weights;
  options.verifyWeights = !args.skipWeightCheck;
  options.memoryBudget = args.memoryBudget;
  options.graphs = !args.noGraphs;
  options.jit = !args.noJit;
  return Session::open(args.package, options);
}

std::vector<std::string> notesOf(const Session &session) {
  const std::vector<std::string> &unknown = session.unknownWeights();
  if (unknown.empty())
    return {};
  size_t shown = std::min<size_t>(unknown.size(), 5);
  return {fmt::format("{} tensors of the weight files are not weights of the package and were not used: {}{}",
                      unknown.size(), fmt::join(unknown.begin(), unknown.begin() + static_cast<long>(shown), ", "),
                      shown < unknown.size() ? ", ..." : "")};
}

std::string portOf(const std::string &tensor, const std::vector<ManifestPort> &ports, size_t tensorCount) {
  for (const ManifestPort &port : ports)
    if (port.name == tensor)
      return tensor;
  for (const ManifestPort &port : ports)
    if (!port.graphName.empty() && port.graphName == tensor)
      return port.name;
  return ports.size() == 1 && tensorCount == 1 ? ports.front().name : tensor;
}

TensorView realParts(TensorView view) {
  if (!isComplex(view.dtype) || view.dtype == DType::c32)
    return view;
  view.dtype = view.dtype == DType::c64 ? DType::f32 : DType::f64;
  view.shape.push_back(2);
  return view;
}

std::vector<TensorRef> readInputs(const SafetensorsFile &file, const Manifest &manifest) {
  std::vector<TensorRef> refs;
  for (const auto &[name, view] : file.tensors()) // a wrong name is an error here, even of a single tensor
    refs.push_back(refTo(portOf(name, manifest.inputs, 0), realParts(view)));
  return refs;
}

std::map<std::string, HostTensor> allocate(const std::vector<PortDesc> &ports) {
  std::map<std::string, HostTensor> tensors;
  for (const PortDesc &port : ports)
    tensors[port.name] = {port.dtype, port.shape, std::vector<uint8_t>(port.bytes())};
  return tensors;
}

std::vector<TensorRef> refsTo(const std::map<std::string, HostTensor> &tensors) {
  std::vector<TensorRef> refs;
  for (const auto &[name, tensor] : tensors)
    refs.push_back(refTo(name, tensor.view()));
  return refs;
}

double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string formatBytes(uint64_t bytes) {
  constexpr std::array<const char *, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string formatSeconds(double seconds) {
  if (seconds < 1e-3)
    return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

} // namespace ditc::run
