// SPDX-License-Identifier: Apache-2.0
//
// wgmma for one warpgroup: a tile of 64 rows times N columns over 32 bytes of k, accumulators in registers.
//
//   Wgmma<N, Element>::ss(d, a, b, accumulate)   A and B from shared memory, k along the columns of both   (S = QKᵀ)
//   Wgmma<N, Element>::rs(d, a, b)               A from registers, d += AB                                 (O += PV)
//
//   Element     k    accumulators   ss   rs, how B lies
//   BF16, F16   16   fp32           yes  k along its rows
//   S8          32   int32          yes  N is a multiple of 16
//   E4M3        32   fp32                k along its columns; rs(d, a, b, accumulate)
//
// Accumulator layout of a thread (warp w, lane 4g + q): d[4i + 0, 1] are row 16w + g, columns 8i + 2q and 8i + 2q + 1;
// d[4i + 2, 3] are the same columns of row 16w + g + 8. The A operand of k-step t is the pairs of d[8t .. 8t + 7], which
// is why a softmax tile can be the left operand of the next product without moving. Of 8-bit numbers it is four of
// d[16t .. 16t + 15] a word, and B's k is in another order: see packScores in attention_quantized.cuh.
//
// NOTE: inline assembly takes no arrays, so the N/2 operands have to be spelled for every N. The macros below build that
// list eight columns at a time; they exist for this file only and are undefined at its end.
#pragma once

#include "attention_ptx.cuh"

namespace ditc {

template <int N, class Element>
struct Wgmma;

// D_k names the registers of the first 8k columns inside the instruction, R_k passes them as FLOAT or INTEGER.
#define FLOAT(x) "+f"(x)
#define INTEGER(x) "+r"(x)
#define D_1 "%0, %1, %2, %3"
#define R_1(C) C(d[0]), C(d[1]), C(d[2]), C(d[3])
#define D_2 D_1 ", %4, %5, %6, %7"
#define R_2(C) R_1(C), C(d[4]), C(d[5]), C(d[6]), C(d[7])
#define D_3 D_2 ", %8, %9, %10, %11"
#define R_3(C) R_2(C), C(d[8]), C(d[9]), C(d[10]), C(d[11])
#define D_4 D_3 ", %12, %13, %14, %15"
#define R_4(C) R_3(C), C(d[12]), C(d[13]), C(d[14]), C(d[15])
#define D_5 D_4 ", %16, %17, %18, %19"
#define R_5(C) R_4(C), C(d[16]), C(d[17]), C(d[18]), C(d[19])
#define D_6 D_5 ", %20, %21, %22, %23"
#define R_6(C) R_5(C), C(d[20]), C(d[21]), C(d[22]), C(d[23])
#define D_7 D_6 ", %24, %25, %26, %27"
#define R_7(C) R_6(C), C(d[24]), C(d[25]), C(d[26]), C(d[27])
#define D_8 D_7 ", %28, %29, %30, %31"
#define R_8(C) R_7(C), C(d[28]), C(d[29]), C(d[30]), C(d[31])
#define D_9 D_8 ", %32, %33, %34, %35"
#define R_9(C) R_8(C), C(d[32]), C(d[33]), C(d[34]), C(d[35])
#define D_10 D_9 ", %36, %37, %38, %39"
#define R_10(C) R_9(C), C(d[36]), C(d[37]), C(d[38]), C(d[39])
#define D_11 D_10 ", %40, %41, %42, %43"
#define R_11(C) R_10(C), C(d[40]), C(d[41]), C(d[42]), C(d[43])
#define D_12 D_11 ", %44, %45, %46, %47"
#define R_12(C) R_11(C), C(d[44]), C(d[45]), C(d[46]), C(d[47])
#define D_13 D_12 ", %48, %49, %50, %51"
#define R_13(C) R_12(C), C(d[48]), C(d[49]), C(d[50]), C(d[51])
#define D_14 D_13 ", %52, %53, %54, %55"
#define R_14(C) R_13(C), C(d[52]), C(d[53]), C(d[54]), C(d[55])
#define D_15 D_14 ", %56, %57, %58, %59"
#define R_15(C) R_14(C), C(d[56]), C(d[57]), C(d[58]), C(d[59])
#define D_16 D_15 ", %60, %61, %62, %63"
#define R_16(C) R_15(C), C(d[60]), C(d[61]), C(d[62]), C(d[63])
#define D_17 D_16 ", %64, %65, %66, %67"
#define R_17(C) R_16(C), C(d[64]), C(d[65]), C(d[66]), C(d[67])
#define D_18 D_17 ", %68, %69, %70, %71"
#define R_18(C) R_17(C), C(d[68]), C(d[69]), C(d[70]), C(d[71])
#define D_19 D_18 ", %72, %73, %74, %75"
#define R_19(C) R_18(C), C(d[72]), C(d[73]), C(d[74]), C(d[75])
#define D_20 D_19 ", %76, %77, %78, %79"
#define R_20(C) R_19(C), C(d[76]), C(d[77]), C(d[78]), C(d[79])
#define D_21 D_20 ", %80, %81, %82, %83"
#define R_21(C) R_20(C), C(d[80]), C(d[81]), C(d[82]), C(d[83])
#define D_22 D_21 ", %84, %85, %86, %87"
#define R_22(C) R_21(C), C(d[84]), C(d[85]), C(d[86]), C(d[87])
#define D_23 D_22 ", %88, %89, %90, %91"
#define R_23(C) R_22(C), C(d[88]), C(d[89]), C(d[90]), C(d[91])
#define D_24 D_23 ", %92, %93, %94, %95"
#define R_24(C) R_23(C), C(d[92]), C(d[93]), C(d[94]), C(d[95])
#define D_25 D_24 ", %96, %97, %98, %99"
#define R_25(C) R_24(C), C(d[96]), C(d[97]), C(d[98]), C(d[99])
#define D_26 D_25 ", %100, %101, %102, %103"
#define R_26(C) R_25(C), C(d[100]), C(d[101]), C(d[102]), C(d[103])
#define D_27 D_26 ", %104, %105, %106, %107"
#define R_27(C) R_26(C), C(d[104]), C(d[105]), C(d[106]), C(d[107])
#define D_28 D_27 ", %108, %109, %110, %111"
#define R_28(C) R_27(C), C(d[108]), C(d[109]), C(d[110]), C(d[111])
#define D_29 D_28 ", %112, %113, %114, %115"
#define R_29(C) R_28(C), C(d[112]), C(d[113]), C(d[114]), C(d[115])
#define D_30 D_29 ", %116, %117, %118, %119"
#define R_30(C) R_29(C), C(d[116]), C(d[117]), C(d[118]), C(d[119])
#define D_31 D_30 ", %120, %121, %122, %123"
#define R_31(C) R_30(C), C(d[120]), C(d[121]), C(d[122]), C(d[123])
#define D_32 D_31 ", %124, %125, %126, %127"
#define R_32(C) R_31(C), C(d[124]), C(d[125]), C(d[126]), C(d[127])

// K: the count of 8-column groups; the numbers after it are those of the operands that follow the accumulators.
#define WGMMA(K, TYPE, TAG, I0, I1, I2, I3, I4)                                                              \
  template <>                                                                                                \
  struct Wgmma<8 * K, TAG> {                                                                                 \
    __device__ static void ss(float (&d)[4 * K], u64 a, u64 b, int accumulate) {                             \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #I2 ", 0;"                                             \
                   "wgmma.mma_async.sync.aligned.m64n" WIDTH_##K "k16.f32." TYPE "." TYPE " {" D_##K "}, "   \
                   "%" #I0 ", %" #I1 ", p, 1, 1, 0, 0; }"                                                    \
                   : R_##K(FLOAT)                                                                                   \
                   : "l"(a), "l"(b), "r"(accumulate));                                                       \
    }                                                                                                        \
    __device__ static void rs(float (&d)[4 * K], const u32 *a, u64 b) {                                      \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" WIDTH_##K "k16.f32." TYPE "." TYPE " {" D_##K "}, "   \
                   "{%" #I0 ", %" #I1 ", %" #I2 ", %" #I3 "}, %" #I4 ", 1, 1, 1, 1;"                         \
                   : R_##K(FLOAT)                                                                                   \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                    \
    }                                                                                                        \
  };

#define WGMMA_S8(K, I0, I1, I2)                                                                              \
  template <>                                                                                                \
  struct Wgmma<8 * K, S8> {                                                                                  \
    __device__ static void ss(int (&d)[4 * K], u64 a, u64 b, int accumulate) {                               \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #I2 ", 0;"                                             \
                   "wgmma.mma_async.sync.aligned.m64n" WIDTH_##K "k32.s32.s8.s8 {" D_##K "}, "               \
                   "%" #I0 ", %" #I1 ", p; }"                                                                \
                   : R_##K(INTEGER)                                                                          \
                   : "l"(a), "l"(b), "r"(accumulate));                                                       \
    }                                                                                                        \
  };
#define WGMMA_E4M3(K, I0, I1, I2, I3, I4, I5)                                                                \
  template <>                                                                                                \
  struct Wgmma<8 * K, E4M3> {                                                                                \
    __device__ static void rs(float (&d)[4 * K], const u32 *a, u64 b, int accumulate) {                      \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #I5 ", 0;"                                             \
                   "wgmma.mma_async.sync.aligned.m64n" WIDTH_##K "k32.f32.e4m3.e4m3 {" D_##K "}, "           \
                   "{%" #I0 ", %" #I1 ", %" #I2 ", %" #I3 "}, %" #I4 ", p, 1, 1; }"                          \
                   : R_##K(FLOAT)                                                                            \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                   \
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

WGMMA_E4M3(1, 4, 5, 6, 7, 8, 9)
WGMMA_S8(2, 8, 9, 10)
WGMMA_E4M3(2, 8, 9, 10, 11, 12, 13)
WGMMA_E4M3(3, 12, 13, 14, 15, 16, 17)
WGMMA_S8(4, 16, 17, 18)
WGMMA_E4M3(4, 16, 17, 18, 19, 20, 21)
WGMMA_E4M3(5, 20, 21, 22, 23, 24, 25)
WGMMA_S8(6, 24, 25, 26)
WGMMA_E4M3(6, 24, 25, 26, 27, 28, 29)
WGMMA_E4M3(7, 28, 29, 30, 31, 32, 33)
WGMMA_S8(8, 32, 33, 34)
WGMMA_E4M3(8, 32, 33, 34, 35, 36, 37)
WGMMA_E4M3(9, 36, 37, 38, 39, 40, 41)
WGMMA_S8(10, 40, 41, 42)
WGMMA_E4M3(10, 40, 41, 42, 43, 44, 45)
WGMMA_E4M3(11, 44, 45, 46, 47, 48, 49)
WGMMA_S8(12, 48, 49, 50)
WGMMA_E4M3(12, 48, 49, 50, 51, 52, 53)
WGMMA_E4M3(13, 52, 53, 54, 55, 56, 57)
WGMMA_S8(14, 56, 57, 58)
WGMMA_E4M3(14, 56, 57, 58, 59, 60, 61)
WGMMA_E4M3(15, 60, 61, 62, 63, 64, 65)
WGMMA_S8(16, 64, 65, 66)
WGMMA_E4M3(16, 64, 65, 66, 67, 68, 69)
WGMMA_E4M3(17, 68, 69, 70, 71, 72, 73)
WGMMA_S8(18, 72, 73, 74)
WGMMA_E4M3(18, 72, 73, 74, 75, 76, 77)
WGMMA_E4M3(19, 76, 77, 78, 79, 80, 81)
WGMMA_S8(20, 80, 81, 82)
WGMMA_E4M3(20, 80, 81, 82, 83, 84, 85)
WGMMA_E4M3(21, 84, 85, 86, 87, 88, 89)
WGMMA_S8(22, 88, 89, 90)
WGMMA_E4M3(22, 88, 89, 90, 91, 92, 93)
WGMMA_E4M3(23, 92, 93, 94, 95, 96, 97)
WGMMA_S8(24, 96, 97, 98)
WGMMA_E4M3(24, 96, 97, 98, 99, 100, 101)
WGMMA_E4M3(25, 100, 101, 102, 103, 104, 105)
WGMMA_S8(26, 104, 105, 106)
WGMMA_E4M3(26, 104, 105, 106, 107, 108, 109)
WGMMA_E4M3(27, 108, 109, 110, 111, 112, 113)
WGMMA_S8(28, 112, 113, 114)
WGMMA_E4M3(28, 112, 113, 114, 115, 116, 117)
WGMMA_E4M3(29, 116, 117, 118, 119, 120, 121)
WGMMA_S8(30, 120, 121, 122)
WGMMA_E4M3(30, 120, 121, 122, 123, 124, 125)
WGMMA_E4M3(31, 124, 125, 126, 127, 128, 129)
WGMMA_S8(32, 128, 129, 130)
WGMMA_E4M3(32, 128, 129, 130, 131, 132, 133)

#undef WGMMA
#undef WGMMA_S8
#undef WGMMA_E4M3
#undef FLOAT
#undef INTEGER
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
