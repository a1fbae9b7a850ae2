/* SPDX-License-Identifier: Apache-2.0
 *
 * The C interface of the ditc runtime (libditrt.so): load a package, hand over weights, run. C99.
 *
 *   ditc_package *package = NULL;
 *   ditc_options options = DITC_OPTIONS_INIT;
 *   if (ditc_open("model.dita", &options, &package) != DITC_OK)
 *     fprintf(stderr, "%s\n", ditc_last_error());
 *   ditc_context *context = NULL;
 *   ditc_context_create(package, &context);
 *   ditc_run(context, NULL, inputs, 2, outputs, 1);
 *   ditc_context_destroy(context);
 *   ditc_close(package);
 *
 * Errors: functions return a ditc_status; the text for the last failure in this thread is
 * ditc_last_error(). A failed call changes nothing.
 * Threads: a package may be used from several threads at once, a context from one at a time.
 * Strings that are returned belong to the package and live until ditc_close().
 */
#ifndef DITC_H
#define DITC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define DITC_API __attribute__((visibility("default")))
#else
#define DITC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define DITC_VERSION_MAJOR 0
#define DITC_VERSION_MINOR 1
#define DITC_VERSION_PATCH 0

typedef enum ditc_status {
  DITC_OK = 0,
  DITC_ERROR_INPUT = 1,   /* the input or the environment is at fault; the text says what to do */
  DITC_ERROR_USAGE = 2,   /* the call is wrong: a null pointer, an index out of range */
  DITC_ERROR_INTERNAL = 3 /* a fault of ditc */
} ditc_status;

/* Element types. Values are stable. */
typedef enum ditc_dtype {
  DITC_F64 = 0, DITC_F32 = 1, DITC_F16 = 2, DITC_BF16 = 3,
  DITC_I64 = 4, DITC_I32 = 5, DITC_I16 = 6, DITC_I8 = 7,
  DITC_U8 = 8, DITC_U16 = 9, DITC_U32 = 10, DITC_U64 = 11,
  DITC_BOOL = 12, /* one byte, 0 or 1 */
  DITC_C32 = 13, DITC_C64 = 14, DITC_C128 = 15, /* complex; bits of both parts */
  DITC_F8_E4M3 = 16, DITC_F8_E5M2 = 17
} ditc_dtype;

typedef enum ditc_device {
  DITC_HOST = 0,
  DITC_CUDA = 1 /* memory of the package's GPU; dense and 16-byte aligned */
} ditc_device;

/* A tensor in the caller's memory, as in DLPack. A package on a GPU takes tensors of both places: those of the
 * host are copied, those of the GPU are used where they are. */
typedef struct ditc_tensor {
  const char *name;
  void *data;             /* element 0; only read for inputs and weights */
  ditc_dtype dtype;
  int32_t ndim;
  const int64_t *shape;   /* ndim sizes; may be null when ndim is 0 */
  const int64_t *strides; /* ndim strides in elements; null: dense, row-major */
  ditc_device device;     /* where data is */
} ditc_tensor;

/* What the package says about an input, output or weight. */
typedef struct ditc_tensor_info {
  const char *name;
  ditc_dtype dtype;
  int32_t ndim;
  const int64_t *shape; /* ndim sizes */
} ditc_tensor_info;

typedef struct ditc_package ditc_package;
typedef struct ditc_context ditc_context;

typedef struct ditc_options {
  size_t size;                     /* sizeof(ditc_options), set by DITC_OPTIONS_INIT; tells the version */
  const char *device;              /* "host", "cuda" or "cuda:1"; null means "host" */
  uint32_t threads;                /* of matrix products on the host; 0: as many as the hardware has */
  const char *const *weight_files; /* safetensors (or *.safetensors.index.json) in place of the package's weights */
  size_t weight_file_count;
  int skip_weight_check;           /* not 0: do not check the hashes of weights when they are first used */
  uint64_t memory_budget;          /* bytes that the package may take on a GPU; 0: what is free */
  int no_graphs;                   /* not 0: launch kernels one by one instead of by a CUDA graph */
  int no_jit;                      /* not 0: refuse code that the CUDA driver would have to compile */
} ditc_options;

#define DITC_OPTIONS_INIT {sizeof(ditc_options), NULL, 0, NULL, 0, 0, 0, 0, 0}

/* "0.1.0", of the library that is loaded. */
DITC_API const char *ditc_version(void);
/* Text of the last failure in this thread; "" when there was none. Valid until the next call in this thread. */
DITC_API const char *ditc_last_error(void);
/* "f32", "bf16", ...; null for a value that is no type. */
DITC_API const char *ditc_dtype_name(ditc_dtype dtype);
/* Bytes of an element; 0 for a value that is no type. */
DITC_API size_t ditc_dtype_size(ditc_dtype dtype);

/* Opens a package. `options` may be null. */
DITC_API ditc_status ditc_open(const char *path, const ditc_options *options, ditc_package **out);
/* Null is allowed. Contexts of the package stay usable. */
DITC_API void ditc_close(ditc_package *package);

DITC_API size_t ditc_bucket_count(const ditc_package *package);
/* Null when the index is out of range. */
DITC_API const char *ditc_bucket_name(const ditc_package *package, size_t index);

/* Inputs and outputs of a bucket, in order. `bucket` may be null when the package has only one. */
DITC_API size_t ditc_input_count(const ditc_package *package);
DITC_API size_t ditc_output_count(const ditc_package *package);
DITC_API ditc_status ditc_input_info(const ditc_package *package, const char *bucket, size_t index,
                                     ditc_tensor_info *out);
DITC_API ditc_status ditc_output_info(const ditc_package *package, const char *bucket, size_t index,
                                      ditc_tensor_info *out);

/* Weights, sorted by name. */
DITC_API size_t ditc_weight_count(const ditc_package *package);
DITC_API ditc_status ditc_weight_info(const ditc_package *package, size_t index, ditc_tensor_info *out);
/* 1: the weight has no bytes yet and must be set before a run; 0: it has; -1: no such weight. */
DITC_API int ditc_weight_is_missing(const ditc_package *package, const char *name);
/* Sets weights by name, all or none, with the types and shapes that ditc_weight_info gives. They are copied
 * unless `borrow` is not 0: then the memory must stay as it is until the weight is set again or the package
 * and its contexts are closed. On a GPU, memory of that GPU is borrowed without a copy. Runs that have begun
 * keep the old weights. */
DITC_API ditc_status ditc_set_weights(ditc_package *package, const ditc_tensor *weights, size_t count, int borrow);
/* Replaces the values of weights by name, all or none: another checkpoint, or a LoRA that was merged. Waits for
 * runs that have begun. On a GPU the addresses stay (but for borrowed weights), so nothing is compiled or
 * recorded again, and prepared weights are made anew in place. */
DITC_API ditc_status ditc_update_weights(ditc_package *package, const ditc_tensor *weights, size_t count);
/* Takes the last ditc_update_weights back, to the bit. An error when there is none. */
DITC_API ditc_status ditc_revert_weights(ditc_package *package);

/* What the package holds on its device now, and what one context takes for its largest bucket. */
typedef struct ditc_memory_info {
  size_t size;             /* sizeof(ditc_memory_info), set by the caller */
  uint64_t weight_bytes;   /* weights and constants that runs read, without borrowed ones */
  uint64_t prepared_bytes; /* made from weights by the buckets that are prepared */
  uint64_t context_bytes;  /* scratch of one context, largest bucket */
} ditc_memory_info;
DITC_API ditc_status ditc_memory(const ditc_package *package, ditc_memory_info *out);

/* Loads kernels and prepares weights of a bucket now rather than in its first run. Null: all buckets. */
DITC_API ditc_status ditc_prepare(ditc_package *package, const char *bucket);

/* Name of the bucket that takes inputs of these shapes (data may be null), by the package's policy; its string is
 * written to *out. */
DITC_API ditc_status ditc_choose_bucket(const ditc_package *package, const ditc_tensor *inputs, size_t count,
                                        const char **out);
/* Sizes of an output for inputs of these shapes, by the package's policy; `shape` has room for as many as
 * ditc_output_info says. `bucket` null: the one that takes them. Needed when inputs are padded; else those of the
 * bucket. */
DITC_API ditc_status ditc_output_shape(const ditc_package *package, const char *bucket, const ditc_tensor *inputs,
                                       size_t count, size_t index, int64_t *shape);

/* What happens with inputs whose shapes no bucket has. */
typedef enum ditc_bucket_policy {
  DITC_BUCKET_EXACT = 0,   /* an error that lists the buckets; the default */
  DITC_BUCKET_NEAREST = 1, /* the smallest bucket that holds them: inputs are padded and outputs cropped, in the
                              dimensions for which the compiler has shown that this changes nothing; packages without
                              such dimensions refuse this policy and say why */
  DITC_BUCKET_FALLBACK = 2 /* the callback runs them, for instance in the framework */
} ditc_bucket_policy;

/* Stands in for ditc_run or ditc_run_on (then `stream` is the caller's): the same tensors. What it returns is what
 * the run returns. */
typedef ditc_status (*ditc_fallback)(void *user, const ditc_tensor *inputs, size_t input_count,
                                     const ditc_tensor *outputs, size_t output_count, void *stream);
DITC_API ditc_status ditc_set_bucket_policy(ditc_package *package, ditc_bucket_policy policy, ditc_fallback fallback,
                                            void *user);

DITC_API ditc_status ditc_context_create(ditc_package *package, ditc_context **out);
DITC_API void ditc_context_destroy(ditc_context *context); /* null is allowed */

/* Runs a bucket to the end. `bucket` null: the one whose shapes the inputs have. All inputs and outputs by
 * name, in any order; outputs in memory of the caller that overlaps nothing else. Inputs that were constants
 * when the package was compiled may be left out; given, they must have that value. */
DITC_API ditc_status ditc_run(ditc_context *context, const char *bucket, const ditc_tensor *inputs,
                              size_t input_count, const ditc_tensor *outputs, size_t output_count);
/* The same on a GPU, in the order of the caller's CUDA stream (a CUstream or cudaStream_t; null: the default
 * stream), without waiting. All tensors are on the GPU and must stay as they are until the stream has done the
 * run. A context's runs on several streams follow each other. */
DITC_API ditc_status ditc_run_on(ditc_context *context, const char *bucket, const ditc_tensor *inputs,
                                 size_t input_count, const ditc_tensor *outputs, size_t output_count, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* DITC_H */
