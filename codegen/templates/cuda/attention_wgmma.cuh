// SPDX-License-Identifier: Apache-2.0
//
// wgmma for one warpgroup: a tile of 64 rows times N columns over 16 values of k, fp32 accumulators in registers.
//
//   Wgmma<N, Element>::ss(d, a, b, accumulate)   A and B from shared memory, k along the columns of both   (S = QKᵀ)
//   Wgmma<N, Element>::rs(d, a, b)               A from registers, B with k along its rows, d += AB       (O += PV)
//
// Accumulator layout of a thread (warp w, lane 4g + q): d[4i + 0, 1] are row 16w + g, columns 8i + 2q and 8i + 2q + 1;
// d[4i + 2, 3] are the same columns of row 16w + g + 8. The A operand of k-step t is the pairs of d[8t .. 8t + 7], which
// is why a softmax tile can be the left operand of the next product without moving.
//
// NOTE: inline assembly takes no arrays, so the N/2 operands have to be spelled for every N. The macros below build that
// list eight columns at a time; they exist for this file only and are undefined at its end.
#pragma once

#include "attention_ptx.cuh"

namespace ditc {

template <int N, class Element>
struct Wgmma;

// D_k names the registers of the first 8k columns inside the instruction, R_k passes them.
#define D_1 "%0, %1, %2, %3"
#define R_1 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define D_2 D_1 ", %4, %5, %6, %7"
#define R_2 R_1, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define D_3 D_2 ", %8, %9, %10, %11"
#define R_3 R_2, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define D_4 D_3 ", %12, %13, %14, %15"
#define R_4 R_3, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define D_5 D_4 ", %16, %17, %18, %19"
#define R_5 R_4, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define D_6 D_5 ", %20, %21, %22, %23"
#define R_6 R_5, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define D_7 D_6 ", %24, %25, %26, %27"
#define R_7 R_6, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define D_8 D_7 ", %28, %29, %30, %31"
#define R_8 R_7, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define D_9 D_8 ", %32, %33, %34, %35"
#define R_9 R_8, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define D_10 D_9 ", %36, %37, %38, %39"
#define R_10 R_9, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define D_11 D_10 ", %40, %41, %42, %43"
#define R_11 R_10, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define D_12 D_11 ", %44, %45, %46, %47"
#define R_12 R_11, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define D_13 D_12 ", %48, %49, %50, %51"
#define R_13 R_12, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define D_14 D_13 ", %52, %53, %54, %55"
#define R_14 R_13, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define D_15 D_14 ", %56, %57, %58, %59"
#define R_15 R_14, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define D_16 D_15 ", %60, %61, %62, %63"
#define R_16 R_15, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define D_17 D_16 ", %64, %65, %66, %67"
#define R_17 R_16, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define D_18 D_17 ", %68, %69, %70, %71"
#define R_18 R_17, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define D_19 D_18 ", %72, %73, %74, %75"
#define R_19 R_18, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define D_20 D_19 ", %76, %77, %78, %79"
#define R_20 R_19, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define D_21 D_20 ", %80, %81, %82, %83"
#define R_21 R_20, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define D_22 D_21 ", %84, %85, %86, %87"
#define R_22 R_21, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define D_23 D_22 ", %88, %89, %90, %91"
#define R_23 R_22, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define D_24 D_23 ", %92, %93, %94, %95"
#define R_24 R_23, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define D_25 D_24 ", %96, %97, %98, %99"
#define R_25 R_24, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define D_26 D_25 ", %100, %101, %102, %103"
#define R_26 R_25, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define D_27 D_26 ", %104, %105, %106, %107"
#define R_27 R_26, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define D_28 D_27 ", %108, %109, %110, %111"
#define R_28 R_27, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define D_29 D_28 ", %112, %113, %114, %115"
#define R_29 R_28, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define D_30 D_29 ", %116, %117, %118, %119"
#define R_30 R_29, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define D_31 D_30 ", %120, %121, %122, %123"
#define R_31 R_30, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define D_32 D_31 ", %124, %125, %126, %127"
#define R_32 R_31, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// K: the count of 8-column groups; the numbers after it are those of the operands that follow the accumulators.
#define WGMMA(K, TYPE, TAG, I0, I1, I2, I3, I4)                                                              \
  template <>                                                                                                \
  struct Wgmma<8 * K, TAG> {                                                                                 \
    __device__ static void ss(float (&d)[4 * K], u64 a, u64 b, int accumulate) {                             \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #I2 ", 0;"                                             \
                   "wgmma.mma_async.sync.aligned.m64n" WIDTH_##K "k16.f32." TYPE "." TYPE " {" D_##K "}, "   \
                   "%" #I0 ", %" #I1 ", p, 1, 1, 0, 0; }"                                                    \
                   : R_##K                                                                                   \
                   : "l"(a), "l"(b), "r"(accumulate));                                                       \
    }                                                                                                        \
    __device__ static void rs(float (&d)[4 * K], const u32 *a, u64 b) {                                      \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" WIDTH_##K "k16.f32." TYPE "." TYPE " {" D_##K "}, "   \
                   "{%" #I0 ", %" #I1 ", %" #I2 ", %" #I3 "}, %" #I4 ", 1, 1, 1, 1;"                         \
                   : R_##K                                                                                   \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                    \
    }                                                                                                        \
  };

#define WIDTH_1 "8"
#define WIDTH_2 "16"
#define WIDTH_3 "24"
#define WIDTH_4 "32"
#define WIDTH_5 "40"
#define WIDTH_6 "48"
#define WIDTH_7 "56"
#define WIDTH_8 "64"
#define WIDTH_9 "72"
#define WIDTH_10 "80"
#define WIDTH_11 "88"
#define WIDTH_12 "96"
#define WIDTH_13 "104"
#define WIDTH_14 "112"
#define WIDTH_15 "120"
#define WIDTH_16 "128"
#define WIDTH_17 "136"
#define WIDTH_18 "144"
#define WIDTH_19 "152"
#define WIDTH_20 "160"
#define WIDTH_21 "168"
#define WIDTH_22 "176"
#define WIDTH_23 "184"
#define WIDTH_24 "192"
#define WIDTH_25 "200"
#define WIDTH_26 "208"
#define WIDTH_27 "216"
#define WIDTH_28 "224"
#define WIDTH_29 "232"
#define WIDTH_30 "240"
#define WIDTH_31 "248"
#define WIDTH_32 "256"

WGMMA(1, "bf16", BF16, 4, 5, 6, 7, 8)
WGMMA(1, "f16", F16, 4, 5, 6, 7, 8)
WGMMA(2, "bf16", BF16, 8, 9, 10, 11, 12)
WGMMA(2, "f16", F16, 8, 9, 10, 11, 12)
WGMMA(3, "bf16", BF16, 12, 13, 14, 15, 16)
WGMMA(3, "f16", F16, 12, 13, 14, 15, 16)
WGMMA(4, "bf16", BF16, 16, 17, 18, 19, 20)
WGMMA(4, "f16", F16, 16, 17, 18, 19, 20)
WGMMA(5, "bf16", BF16, 20, 21, 22, 23, 24)
WGMMA(5, "f16", F16, 20, 21, 22, 23, 24)
WGMMA(6, "bf16", BF16, 24, 25, 26, 27, 28)
WGMMA(6, "f16", F16, 24, 25, 26, 27, 28)
WGMMA(7, "bf16", BF16, 28, 29, 30, 31, 32)
WGMMA(7, "f16", F16, 28, 29, 30, 31, 32)
WGMMA(8, "bf16", BF16, 32, 33, 34, 35, 36)
WGMMA(8, "f16", F16, 32, 33, 34, 35, 36)
WGMMA(9, "bf16", BF16, 36, 37, 38, 39, 40)
WGMMA(9, "f16", F16, 36, 37, 38, 39, 40)
WGMMA(10, "bf16", BF16, 40, 41, 42, 43, 44)
WGMMA(10, "f16", F16, 40, 41, 42, 43, 44)
WGMMA(11, "bf16", BF16, 44, 45, 46, 47, 48)
WGMMA(11, "f16", F16, 44, 45, 46, 47, 48)
WGMMA(12, "bf16", BF16, 48, 49, 50, 51, 52)
WGMMA(12, "f16", F16, 48, 49, 50, 51, 52)
WGMMA(13, "bf16", BF16, 52, 53, 54, 55, 56)
WGMMA(13, "f16", F16, 52, 53, 54, 55, 56)
WGMMA(14, "bf16", BF16, 56, 57, 58, 59, 60)
WGMMA(14, "f16", F16, 56, 57, 58, 59, 60)
WGMMA(15, "bf16", BF16, 60, 61, 62, 63, 64)
WGMMA(15, "f16", F16, 60, 61, 62, 63, 64)
WGMMA(16, "bf16", BF16, 64, 65, 66, 67, 68)
WGMMA(16, "f16", F16, 64, 65, 66, 67, 68)
WGMMA(17, "bf16", BF16, 68, 69, 70, 71, 72)
WGMMA(17, "f16", F16, 68, 69, 70, 71, 72)
WGMMA(18, "bf16", BF16, 72, 73, 74, 75, 76)
WGMMA(18, "f16", F16, 72, 73, 74, 75, 76)
WGMMA(19, "bf16", BF16, 76, 77, 78, 79, 80)
WGMMA(19, "f16", F16, 76, 77, 78, 79, 80)
WGMMA(20, "bf16", BF16, 80, 81, 82, 83, 84)
WGMMA(20, "f16", F16, 80, 81, 82, 83, 84)
WGMMA(21, "bf16", BF16, 84, 85, 86, 87, 88)
WGMMA(21, "f16", F16, 84, 85, 86, 87, 88)
WGMMA(22, "bf16", BF16, 88, 89, 90, 91, 92)
WGMMA(22, "f16", F16, 88, 89, 90, 91, 92)
WGMMA(23, "bf16", BF16, 92, 93, 94, 95, 96)
WGMMA(23, "f16", F16, 92, 93, 94, 95, 96)
WGMMA(24, "bf16", BF16, 96, 97, 98, 99, 100)
WGMMA(24, "f16", F16, 96, 97, 98, 99, 100)
WGMMA(25, "bf16", BF16, 100, 101, 102, 103, 104)
WGMMA(25, "f16", F16, 100, 101, 102, 103, 104)
WGMMA(26, "bf16", BF16, 104, 105, 106, 107, 108)
WGMMA(26, "f16", F16, 104, 105, 106, 107, 108)
WGMMA(27, "bf16", BF16, 108, 109, 110, 111, 112)
WGMMA(27, "f16", F16, 108, 109, 110, 111, 112)
WGMMA(28, "bf16", BF16, 112, 113, 114, 115, 116)
WGMMA(28, "f16", F16, 112, 113, 114, 115, 116)
WGMMA(29, "bf16", BF16, 116, 117, 118, 119, 120)
WGMMA(29, "f16", F16, 116, 117, 118, 119, 120)
WGMMA(30, "bf16", BF16, 120, 121, 122, 123, 124)
WGMMA(30, "f16", F16, 120, 121, 122, 123, 124)
WGMMA(31, "bf16", BF16, 124, 125, 126, 127, 128)
WGMMA(31, "f16", F16, 124, 125, 126, 127, 128)
WGMMA(32, "bf16", BF16, 128, 129, 130, 131, 132)
WGMMA(32, "f16", F16, 128, 129, 130, 131, 132)

#undef WGMMA
#undef D_1
#undef R_1
#undef WIDTH_1
#undef D_2
#undef R_2
#undef WIDTH_2
#undef D_3
#undef R_3
#undef WIDTH_3
#undef D_4
#undef R_4
#undef WIDTH_4
#undef D_5
#undef R_5
#undef WIDTH_5
#undef D_6
#undef R_6
#undef WIDTH_6
#undef D_7
#undef R_7
#undef WIDTH_7
#undef D_8
#undef R_8
#undef WIDTH_8
#undef D_9
#undef R_9
#undef WIDTH_9
#undef D_10
#undef R_10
#undef WIDTH_10
#undef D_11
#undef R_11
#undef WIDTH_11
#undef D_12
#undef R_12
#undef WIDTH_12
#undef D_13
#undef R_13
#undef WIDTH_13
#undef D_14
#undef R_14
#undef WIDTH_14
#undef D_15
#undef R_15
#undef WIDTH_15
#undef D_16
#undef R_16
#undef WIDTH_16
#undef D_17
#undef R_17
#undef WIDTH_17
#undef D_18
#undef R_18
#undef WIDTH_18
#undef D_19
#undef R_19
#undef WIDTH_19
#undef D_20
#undef R_20
#undef WIDTH_20
#undef D_21
#undef R_21
#undef WIDTH_21
#undef D_22
#undef R_22
#undef WIDTH_22
#undef D_23
#undef R_23
#undef WIDTH_23
#undef D_24
#undef R_24
#undef WIDTH_24
#undef D_25
#undef R_25
#undef WIDTH_25
#undef D_26
#undef R_26
#undef WIDTH_26
#undef D_27
#undef R_27
#undef WIDTH_27
#undef D_28
#undef R_28
#undef WIDTH_28
#undef D_29
#undef R_29
#undef WIDTH_29
#undef D_30
#undef R_30
#undef WIDTH_30
#undef D_31
#undef R_31
#undef WIDTH_31
#undef D_32
#undef R_32
#undef WIDTH_32

}  // namespace ditc
