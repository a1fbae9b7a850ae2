/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels for the hand-made packages of the runtime's tests, in the form in which the compiler emits them:
 * `void kernel(char *const *args)` with shapes compiled in. The model is y = relu(x * w^T + b) + table with
 * 3 input and 4 output features, in buckets of 2 and 4 rows. */

enum { kIn = 3, kOut = 4 };

static void biasRelu(char *const *args, int rows) {
  const float *h = (const float *)args[0], *b = (const float *)args[1], *table = (const float *)args[2];
  float *y = (float *)args[3];
  for (int m = 0; m < rows; ++m)
    for (int n = 0; n < kOut; ++n) {
      float value = h[m * kOut + n] + b[n];
      y[m * kOut + n] = (value > 0 ? value : 0) + table[n];
    }
}

void bias_relu_2(char *const *args);
void bias_relu_4(char *const *args);
void transpose(char *const *args);
void wait_for_flag(char *const *args);
void keep_first(char *const *args);
void count_runs(char *const *args);

void bias_relu_2(char *const *args) { biasRelu(args, 2); }
void bias_relu_4(char *const *args) { biasRelu(args, 4); }

/* w [4, 3] -> [3, 4] */
void transpose(char *const *args) {
  const float *w = (const float *)args[0];
  float *out = (float *)args[1];
  for (int n = 0; n < kOut; ++n)
    for (int k = 0; k < kIn; ++k)
      out[k * kOut + n] = w[n * kIn + k];
}

/* Returns when the caller has made the first element different from zero. */
void wait_for_flag(char *const *args) {
  volatile float *flag = (volatile float *)args[0];
  while (*flag == 0)
    ;
  *(float *)args[1] = *flag;
}

/* How often it ran before, by a counter that it should have set back to zero. */
void count_runs(char *const *args) { *(float *)args[1] = (float)(*(int *)args[0])++; }

/* A faulty kernel: writes only the first of its outputs' elements. */
void keep_first(char *const *args) { *(float *)args[1] = *(const float *)args[0]; }
