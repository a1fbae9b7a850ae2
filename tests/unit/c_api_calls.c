/* SPDX-License-Identifier: Apache-2.0
 *
 * A C99 program's use of the runtime: the example of docs/runtime.md with checks. Compiled as C so that
 * the header stays C. Returns 0, or the line of the check that failed. */
#include "ditc.h"

#include <string.h>

#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)

int ditc_c_calls(const char *path);

int ditc_c_calls(const char *path) {
  ditc_package *package = NULL;
  ditc_context *context = NULL;
  ditc_options options = DITC_OPTIONS_INIT;
  ditc_tensor_info info;
  int64_t x_shape[2] = {2, 3}, y_shape[2] = {2, 4};
  float x[6] = {-2, -1.5f, -1, -0.5f, 0, 0.5f}, y[8];
  ditc_tensor input = {"x", NULL, DITC_F32, 2, NULL, NULL, DITC_HOST};
  ditc_tensor output = {"y", NULL, DITC_F32, 2, NULL, NULL, DITC_HOST};
  const char *bucket = NULL;

  options.threads = 1;
  CHECK(ditc_open(path, &options, &package) == DITC_OK);
  CHECK(ditc_bucket_count(package) == 2);
  CHECK(strcmp(ditc_bucket_name(package, 1), "four") == 0);
  CHECK(ditc_input_count(package) == 1 && ditc_output_count(package) == 1);
  CHECK(ditc_input_info(package, "four", 0, &info) == DITC_OK);
  CHECK(strcmp(info.name, "x") == 0 && info.dtype == DITC_F32 && info.ndim == 2);
  CHECK(info.shape[0] == 4 && info.shape[1] == 3);
  CHECK(ditc_output_info(package, "two", 0, &info) == DITC_OK);
  CHECK(info.shape[0] == 2 && info.shape[1] == 4);
  CHECK(ditc_weight_count(package) == 2);
  CHECK(ditc_weight_info(package, 1, &info) == DITC_OK);
  CHECK(strcmp(info.name, "w") == 0 && info.shape[0] == 4);
  CHECK(ditc_weight_is_missing(package, "w") == 0);

  input.shape = x_shape;
  CHECK(ditc_choose_bucket(package, &input, 1, &bucket) == DITC_OK);
  CHECK(strcmp(bucket, "two") == 0);
  CHECK(ditc_prepare(package, NULL) == DITC_OK);

  CHECK(ditc_context_create(package, &context) == DITC_OK);
  input.data = x;
  output.data = y;
  output.shape = y_shape;
  CHECK(ditc_run(context, NULL, &input, 1, &output, 1) == DITC_OK);
  CHECK(y[0] == 14.125f); /* -2 * -1 + -1.5 * -0.75 + -1 * -0.5 + 0.5, + 10 */
  ditc_close(package);
  CHECK(ditc_run(context, "two", &input, 1, &output, 1) == DITC_OK); /* the context keeps what it needs */
  ditc_context_destroy(context);
  return 0;
}
