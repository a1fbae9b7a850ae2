/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs every bucket of a package once and prints the mean of each output: how a C program uses libditrt.
 *
 *   cc -I../../runtime/include run.c -L../../build/lib -lditrt -o run
 *   ./run model.dita [host|cuda:0]
 *
 * Inputs are zeros in memory of the host, which a package on a GPU takes too. A program that has its tensors on
 * the GPU gives them with device DITC_CUDA, and calls ditc_run_on with its stream.
 */
#include <ditc.h>

#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, ditc_last_error());
  return 1;
}

static size_t element_count(const ditc_tensor_info *info) {
  size_t count = 1;
  for (int32_t i = 0; i < info->ndim; ++i)
    count *= (size_t)info->shape[i];
  return count;
}

/* A tensor of zeros as `info` says. At least one byte is allocated, so null means that memory ran out. */
static ditc_tensor make_tensor(const ditc_tensor_info *info) {
  ditc_tensor tensor = {info->name, NULL, info->dtype, info->ndim, info->shape, NULL, DITC_HOST};
  tensor.data = calloc(element_count(info) + 1, ditc_dtype_size(info->dtype));
  return tensor;
}

static void print_output(const ditc_tensor *tensor, const ditc_tensor_info *info) {
  size_t count = element_count(info);
  printf("  %s: %s, %zu elements", info->name, ditc_dtype_name(info->dtype), count);
  if (info->dtype == DITC_F32 && count > 0) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i)
      sum += ((const float *)tensor->data)[i];
    printf(", mean %g", sum / (double)count);
  }
  printf("\n");
}

static int run_bucket(ditc_package *package, ditc_context *context, const char *bucket) {
  size_t input_count = ditc_input_count(package), output_count = ditc_output_count(package);
  ditc_tensor *tensors = calloc(input_count + output_count + 1, sizeof *tensors);
  ditc_tensor *outputs = tensors + input_count;
  ditc_tensor_info info;
  int status = tensors == NULL;
  for (size_t i = 0; !status && i < input_count; ++i) {
    status = ditc_input_info(package, bucket, i, &info) != DITC_OK;
    if (!status)
      tensors[i] = make_tensor(&info);
  }
  for (size_t i = 0; !status && i < output_count; ++i) {
    status = ditc_output_info(package, bucket, i, &info) != DITC_OK;
    if (!status)
      outputs[i] = make_tensor(&info);
  }
  if (!status)
    status = ditc_run(context, bucket, tensors, input_count, outputs, output_count) != DITC_OK;
  if (status)
    failed(bucket);
  else
    printf("%s\n", bucket);
  for (size_t i = 0; !status && i < output_count; ++i)
    if (ditc_output_info(package, bucket, i, &info) == DITC_OK)
      print_output(&outputs[i], &info);
  for (size_t i = 0; tensors && i < input_count + output_count; ++i)
    free(tensors[i].data);
  free(tensors);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s model.dita [host|cuda:0]\n", argv[0]);
    return 2;
  }
  ditc_options options = DITC_OPTIONS_INIT;
  options.device = argc > 2 ? argv[2] : "host";
  ditc_package *package = NULL;
  if (ditc_open(argv[1], &options, &package) != DITC_OK)
    return failed(argv[1]);
  ditc_context *context = NULL;
  int status = 0;
  if (ditc_context_create(package, &context) != DITC_OK)
    status = failed("ditc_context_create");
  for (size_t i = 0; !status && i < ditc_bucket_count(package); ++i)
    status = run_bucket(package, context, ditc_bucket_name(package, i));
  ditc_context_destroy(context);
  ditc_close(package);
  return status;
}
