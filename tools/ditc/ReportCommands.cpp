// SPDX-License-Identifier: Apache-2.0
//
// The subcommands that read report.json of a package: report, explain, diff.
#include "tools/ditc/Commands.h"

#include "compiler/report/Diff.h"
#include "compiler/report/Explain.h"
#include "compiler/report/Gpu.h"
#include "compiler/report/Html.h"
#include "compiler/report/Report.h"
#include "compiler/report/Text.h"
#include "runtime/AtomicFile.h"
#include "runtime/Error.h"
#include "runtime/JsonText.h"
#include "runtime/Package.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>

namespace ditc::cli {

namespace {

using nlohmann::json;

json readReport(const std::string &path) {
  Package package = Package::open(path);
  json report = json::parse(package.text("report.json"), nullptr, false);
  if (report.is_discarded() || report.value("version", 0) != kReportVersion)
    fail("report.json of '{}' is of another version; compile the package again", path);
  return report;
}

/// What reads a report; one whose fields are not as they should be is the file's fault.
std::function<int()> reading(std::function<int()> action) {
  return [action = std::move(action)] {
    try {
      return action();
    } catch (const json::exception &error) {
      fail("report.json is damaged ({}); compile the package again", error.what());
    }
  };
}

/// The bucket of that name; the only or first one without a name.
const json &findBucket(const json &report, const std::string &name) {
  std::vector<std::string> known;
  for (const json &bucket : report["buckets"]) {
    if (name.empty() || bucket["name"] == name)
      return bucket;
    known.push_back(bucket["name"]);
  }
  fail("no bucket is called '{}'; the package has {}", name, fmt::join(known, ", "));
}

void write(const std::string &text, const std::string &path) {
  if (path.empty() || path == "-") {
    fmt::print("{}", text);
    return;
  }
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

struct ReportArguments {
  std::string package, bucket, block, gpu = kDefaultGpu, format = "text", output;
  bool json = false;
};

int runReport(const ReportArguments &arguments) {
  if (!arguments.output.empty())
    refuseToReplace(arguments.output, arguments.package);
  json report = readReport(arguments.package);
  applyGpu(report, arguments.gpu);
  if (!arguments.bucket.empty()) {
    json only = findBucket(report, arguments.bucket);
    report["buckets"] = json::array({only});
  }
  if (arguments.format == "html") {
    write(reportPage(report, std::filesystem::path(arguments.package).stem().string()), arguments.output);
  } else if (arguments.format == "json" || arguments.json) {
    write(jsonText(report, 1) + "\n", arguments.output);
  } else {
    std::string text;
    for (const json &bucket : report["buckets"])
      text += reportText(report, bucket, arguments.block);
    write(text, arguments.output);
  }
  return 0;
}

/// "PKG.dita:bucket"; a file of that whole name wins.
std::pair<std::string, std::string> splitBucket(const std::string &text) {
  size_t colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text))
    return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

} // namespace

void addReport(CLI::App &app, std::function<int()> &action) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App *command = app.add_subcommand("report", "Says what the compiler did: kernels, bytes, time they need at least, what was not fused and why.");
  command->add_option("package", arguments->package, "PKG.dita")->required();
  command->add_option("--bucket", arguments->bucket, "only this bucket");
  command->add_option("--block", arguments->block, "only this repeated block, as text: its list, or an element of it (transformer_blocks.3)");
  command->add_option("--gpu", arguments->gpu, "for roofline times: H100, H200, A100, L40S, RTX4090, RTX5090, B200")->capture_default_str();
  command->add_option("--format", arguments->format, "text, json, or html: one page without outside parts")->check(CLI::IsMember({"text", "json", "html"}))->capture_default_str();
  command->add_option("-o,--output", arguments->output, "file to write (default: standard output)")->check(refuseEmpty);
  command->add_flag("--json", arguments->json, "the same as --format json");
  command->callback([arguments, &action] { action = reading([arguments] { return runReport(*arguments); }); });
}

void addExplain(CLI::App &app, std::function<int()> &action) {
  struct Arguments {
    std::string package, op, bucket, gpu = kDefaultGpu;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command = app.add_subcommand("explain", "Says which kernel an operation is in and with whom, and which rule and operand kept its neighbours apart.");
  command->add_option("package", arguments->package, "PKG.dita")->required();
  command->add_option("op", arguments->op, "module path (blocks.3.attn.to_q, blocks.*.attn), node of the source graph (linear_12), or kernel (k17)")->required()->check(refuseEmpty);
  command->add_option("--bucket", arguments->bucket, "bucket (default: the first one)");
  command->add_option("--gpu", arguments->gpu, "for roofline times")->capture_default_str();
  command->callback([arguments, &action] {
    action = reading([arguments] {
      json report = readReport(arguments->package);
      applyGpu(report, arguments->gpu);
      fmt::print("{}", explainText(report, findBucket(report, arguments->bucket), arguments->op));
      return 0;
    });
  });
}

void addDiff(CLI::App &app, std::function<int()> &action) {
  auto before = std::make_shared<std::string>(), after = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand("diff", "Compares two builds, or two buckets: launches, bytes, kernels, reasons.");
  command->add_option("before", *before, "A.dita or A.dita:BUCKET")->required();
  command->add_option("after", *after, "B.dita or B.dita:BUCKET")->required();
  command->callback([=, &action] {
    action = reading([=] {
      auto [pathA, bucketA] = splitBucket(*before);
      auto [pathB, bucketB] = splitBucket(*after);
      json a = readReport(pathA), b = readReport(pathB);
      fmt::print("{}", diffText(findBucket(a, bucketA), findBucket(b, bucketB)));
      return 0;
    });
  });
}

} // namespace ditc::cli
