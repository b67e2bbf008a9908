// bfloat16 and pairs of it. Sums and products are fma with 1 and -0: compute capability 8.0 has no bf16 add, and rounds these once too.
#pragma once
#ifndef TRIBUNAL_CUDA_BF16
#define TRIBUNAL_CUDA_BF16

struct __nv_bfloat16_raw {
    unsigned short x;
};

struct __attribute__((aligned(2))) __nv_bfloat16 {
    unsigned short tribunal_bits;
    __nv_bfloat16() = default;
    TRIBUNAL_BOTH constexpr __nv_bfloat16(__nv_bfloat16_raw raw) : tribunal_bits(raw.x) {}
    TRIBUNAL_MEMBER __nv_bfloat16(float x);
    TRIBUNAL_MEMBER __nv_bfloat16(double x);
    TRIBUNAL_MEMBER __nv_bfloat16(int x);
    TRIBUNAL_MEMBER __nv_bfloat16(unsigned int x);
    TRIBUNAL_MEMBER operator float() const;
    TRIBUNAL_MEMBER explicit operator bool() const { return (tribunal_bits & 0x7fff) != 0; }
};

struct __attribute__((aligned(4))) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    __nv_bfloat162() = default;
    TRIBUNAL_MEMBER __nv_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) : x(x), y(y) {}
};

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

TRIBUNAL_BOTH __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16(__nv_bfloat16_raw{bits}); }
TRIBUNAL_BOTH __nv_bfloat16 __short_as_bfloat16(short bits) { return __nv_bfloat16(__nv_bfloat16_raw{(unsigned short)bits}); }
TRIBUNAL_BOTH unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.tribunal_bits; }
TRIBUNAL_BOTH short __bfloat16_as_short(__nv_bfloat16 x) { return (short)x.tribunal_bits; }
TRIBUNAL_DEVICE unsigned int tribunal_pair(__nv_bfloat162 v) { return __builtin_bit_cast(unsigned int, v); }
TRIBUNAL_DEVICE __nv_bfloat162 tribunal_nv_bfloat162(unsigned int bits) { return __builtin_bit_cast(__nv_bfloat162, bits); }

// Conversions.
TRIBUNAL_DEVICE __nv_bfloat16 __float2bfloat16_rn(float x) {
    unsigned short bits;
    __asm__("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return __ushort_as_bfloat16(bits);
}
TRIBUNAL_DEVICE __nv_bfloat16 __float2bfloat16_rz(float x) {
    unsigned short bits;
    __asm__("cvt.rz.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return __ushort_as_bfloat16(bits);
}
TRIBUNAL_DEVICE __nv_bfloat16 __float2bfloat16(float x) { return __float2bfloat16_rn(x); }
TRIBUNAL_DEVICE __nv_bfloat16 __double2bfloat16(double x) {
    // To float towards odd first, so that nothing is rounded twice.
    float narrow = __double2float_rz(x);
    unsigned int inexact = (double)narrow != x && x == x;
    return __float2bfloat16_rn(__uint_as_float(__float_as_uint(narrow) | inexact));
}
TRIBUNAL_DEVICE float __bfloat162float(__nv_bfloat16 x) {
    return __uint_as_float((unsigned int)x.tribunal_bits << 16);
}
TRIBUNAL_MEMBER __nv_bfloat16::__nv_bfloat16(float x) : tribunal_bits(__float2bfloat16_rn(x).tribunal_bits) {}
TRIBUNAL_MEMBER __nv_bfloat16::__nv_bfloat16(double x) : tribunal_bits(__double2bfloat16(x).tribunal_bits) {}
TRIBUNAL_MEMBER __nv_bfloat16::__nv_bfloat16(int x) : tribunal_bits(__double2bfloat16(x).tribunal_bits) {}
TRIBUNAL_MEMBER __nv_bfloat16::__nv_bfloat16(unsigned int x) : tribunal_bits(__double2bfloat16(x).tribunal_bits) {}
TRIBUNAL_MEMBER __nv_bfloat16::operator float() const { return __bfloat162float(*this); }
TRIBUNAL_DEVICE __nv_bfloat16 __int2bfloat16_rn(int x) { return __double2bfloat16(x); }
TRIBUNAL_DEVICE __nv_bfloat16 __uint2bfloat16_rn(unsigned int x) { return __double2bfloat16(x); }
TRIBUNAL_DEVICE int __bfloat162int_rn(__nv_bfloat16 x) { return __float2int_rn(__bfloat162float(x)); }
TRIBUNAL_DEVICE int __bfloat162int_rz(__nv_bfloat16 x) { return __float2int_rz(__bfloat162float(x)); }
TRIBUNAL_DEVICE unsigned int __bfloat162uint_rn(__nv_bfloat16 x) { return __float2uint_rn(__bfloat162float(x)); }

// Pairs.
TRIBUNAL_DEVICE __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162(x, y); }
TRIBUNAL_DEVICE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162(x, y); }
TRIBUNAL_DEVICE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return __nv_bfloat162(x, x); }
TRIBUNAL_DEVICE __nv_bfloat162 __float2bfloat162_rn(float x) { return __bfloat162bfloat162(__float2bfloat16_rn(x)); }
TRIBUNAL_DEVICE __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return __nv_bfloat162(__float2bfloat16_rn(x), __float2bfloat16_rn(y)); }
TRIBUNAL_DEVICE __nv_bfloat162 __float22bfloat162_rn(float2 v) { return __floats2bfloat162_rn(v.x, v.y); }
TRIBUNAL_DEVICE float2 __bfloat1622float2(__nv_bfloat162 v) { return make_float2(__bfloat162float(v.x), __bfloat162float(v.y)); }
TRIBUNAL_DEVICE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
TRIBUNAL_DEVICE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
TRIBUNAL_DEVICE float __low2float(__nv_bfloat162 v) { return __bfloat162float(v.x); }
TRIBUNAL_DEVICE float __high2float(__nv_bfloat162 v) { return __bfloat162float(v.y); }
TRIBUNAL_DEVICE __nv_bfloat162 __low2bfloat162(__nv_bfloat162 v) { return __nv_bfloat162(v.x, v.x); }
TRIBUNAL_DEVICE __nv_bfloat162 __high2bfloat162(__nv_bfloat162 v) { return __nv_bfloat162(v.y, v.y); }
TRIBUNAL_DEVICE __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 v, __nv_bfloat162 w) { return __nv_bfloat162(v.x, w.x); }
TRIBUNAL_DEVICE __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 v, __nv_bfloat162 w) { return __nv_bfloat162(v.y, w.y); }
TRIBUNAL_DEVICE __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 v) { return __nv_bfloat162(v.y, v.x); }

// Arithmetic; names with 2 work on both halves.
#define TRIBUNAL_BF16(name, text, arguments, scalars, pairs)                                                    \
    TRIBUNAL_DEVICE __nv_bfloat16 name(TRIBUNAL_ARGUMENTS##arguments(__nv_bfloat16)) {                                            \
        unsigned short r;                                                                                      \
        __asm__(text(".bf16") : "=h"(r) : scalars);                                                             \
        return __ushort_as_bfloat16(r);                                                                            \
    }                                                                                                         \
    TRIBUNAL_DEVICE __nv_bfloat162 name##2(TRIBUNAL_ARGUMENTS##arguments(__nv_bfloat162)) {                                       \
        unsigned int r;                                                                                        \
        __asm__(text(".bf16x2") : "=r"(r) : pairs);                                                              \
        return tribunal_nv_bfloat162(r);                                                                            \
    }
#define TRIBUNAL_ARGUMENTS1(type) type a
#define TRIBUNAL_ARGUMENTS2(type) type a, type b
#define TRIBUNAL_ARGUMENTS3(type) type a, type b, type c
#define TRIBUNAL_HALF1 "h"(a.tribunal_bits)
#define TRIBUNAL_HALF2 "h"(a.tribunal_bits), "h"(b.tribunal_bits)
#define TRIBUNAL_HALF3 "h"(a.tribunal_bits), "h"(b.tribunal_bits), "h"(c.tribunal_bits)
#define TRIBUNAL_PAIR1 "r"(tribunal_pair(a))
#define TRIBUNAL_PAIR2 "r"(tribunal_pair(a)), "r"(tribunal_pair(b))
#define TRIBUNAL_PAIR3 "r"(tribunal_pair(a)), "r"(tribunal_pair(b)), "r"(tribunal_pair(c))
#define TRIBUNAL_TEXT(t) "fma.rn" t " %0, %1, %2, %3;"
TRIBUNAL_BF16(__hfma, TRIBUNAL_TEXT, 3, TRIBUNAL_HALF3, TRIBUNAL_PAIR3)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "fma.rn.relu" t " %0, %1, %2, %3;"
TRIBUNAL_BF16(__hfma_relu, TRIBUNAL_TEXT, 3, TRIBUNAL_HALF3, TRIBUNAL_PAIR3)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "neg" t " %0, %1;"
TRIBUNAL_BF16(__hneg, TRIBUNAL_TEXT, 1, TRIBUNAL_HALF1, TRIBUNAL_PAIR1)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "abs" t " %0, %1;"
TRIBUNAL_BF16(__habs, TRIBUNAL_TEXT, 1, TRIBUNAL_HALF1, TRIBUNAL_PAIR1)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "min" t " %0, %1, %2;"
TRIBUNAL_BF16(__hmin, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "min.NaN" t " %0, %1, %2;"
TRIBUNAL_BF16(__hmin_nan, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "max" t " %0, %1, %2;"
TRIBUNAL_BF16(__hmax, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "max.NaN" t " %0, %1, %2;"
TRIBUNAL_BF16(__hmax_nan, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
TRIBUNAL_DEVICE __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __hfma(a, __ushort_as_bfloat16(0x3f80), b);
}
TRIBUNAL_DEVICE __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __hfma(b, __ushort_as_bfloat16(0xbf80), a);
}
TRIBUNAL_DEVICE __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __hfma(a, b, __ushort_as_bfloat16(0x8000));
}
TRIBUNAL_DEVICE __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) {
    return __hfma2(a, tribunal_nv_bfloat162(0x3f803f80u), b);
}
TRIBUNAL_DEVICE __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) {
    return __hfma2(b, tribunal_nv_bfloat162(0xbf80bf80u), a);
}
TRIBUNAL_DEVICE __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) {
    return __hfma2(a, b, tribunal_nv_bfloat162(0x80008000u));
}
TRIBUNAL_DEVICE __nv_bfloat16 __hadd_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hadd(a, b); }
TRIBUNAL_DEVICE __nv_bfloat16 __hsub_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hsub(a, b); }
TRIBUNAL_DEVICE __nv_bfloat16 __hmul_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmul(a, b); }
#undef TRIBUNAL_BF16
#undef TRIBUNAL_ARGUMENTS1
#undef TRIBUNAL_ARGUMENTS2
#undef TRIBUNAL_ARGUMENTS3
#undef TRIBUNAL_HALF1
#undef TRIBUNAL_HALF2
#undef TRIBUNAL_HALF3
#undef TRIBUNAL_PAIR1
#undef TRIBUNAL_PAIR2
#undef TRIBUNAL_PAIR3

TRIBUNAL_DEVICE __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) { return __float2bfloat16_rn(__bfloat162float(a) / __bfloat162float(b)); }
TRIBUNAL_DEVICE __nv_bfloat162 __h2div(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(__hdiv(a.x, b.x), __hdiv(a.y, b.y)); }

// Comparisons: false where one is a NaN; names with u true then. Of pairs, 1 or 0 for each half, or with b whether both hold.
#define TRIBUNAL_COMPARE(name, operator)                                                                       \
    TRIBUNAL_DEVICE bool name(__nv_bfloat16 a, __nv_bfloat16 b) { return __bfloat162float(a) operator __bfloat162float(b); }             \
    TRIBUNAL_DEVICE bool name##u(__nv_bfloat16 a, __nv_bfloat16 b) {                                                              \
        float x = __bfloat162float(a), y = __bfloat162float(b);                                                        \
        return x operator y || x != x || y != y;                                                               \
    }                                                                                                         \
    TRIBUNAL_DEVICE __nv_bfloat162 name##2(__nv_bfloat162 a, __nv_bfloat162 b) {                                                            \
        return __nv_bfloat162(__nv_bfloat16(name(a.x, b.x) ? 1.0f : 0.0f), __nv_bfloat16(name(a.y, b.y) ? 1.0f : 0.0f));                     \
    }
TRIBUNAL_COMPARE(__heq, ==)
TRIBUNAL_COMPARE(__hlt, <)
TRIBUNAL_COMPARE(__hle, <=)
TRIBUNAL_COMPARE(__hgt, >)
TRIBUNAL_COMPARE(__hge, >=)
#undef TRIBUNAL_COMPARE
TRIBUNAL_DEVICE bool __hne(__nv_bfloat16 a, __nv_bfloat16 b) {
    float x = __bfloat162float(a), y = __bfloat162float(b);
    return x < y || x > y;
}
TRIBUNAL_DEVICE bool __hbeq2(__nv_bfloat162 a, __nv_bfloat162 b) { return __heq(a.x, b.x) && __heq(a.y, b.y); }
TRIBUNAL_DEVICE bool __hblt2(__nv_bfloat162 a, __nv_bfloat162 b) { return __hlt(a.x, b.x) && __hlt(a.y, b.y); }
TRIBUNAL_DEVICE bool __hbgt2(__nv_bfloat162 a, __nv_bfloat162 b) { return __hgt(a.x, b.x) && __hgt(a.y, b.y); }
TRIBUNAL_DEVICE bool __hisnan(__nv_bfloat16 a) { return isnan(__bfloat162float(a)); }
TRIBUNAL_DEVICE int __hisinf(__nv_bfloat16 a) {
    float x = __bfloat162float(a);
    return isinf(x) ? (x < 0.0f ? -1 : 1) : 0;
}

// Functions: those of float, rounded.
#define TRIBUNAL_FUNCTION(name, function)                                                                      \
    TRIBUNAL_DEVICE __nv_bfloat16 h##name(__nv_bfloat16 a) { return __float2bfloat16_rn(function(__bfloat162float(a))); }                \
    TRIBUNAL_DEVICE __nv_bfloat162 h2##name(__nv_bfloat162 a) { return __nv_bfloat162(h##name(a.x), h##name(a.y)); }
TRIBUNAL_FUNCTION(exp, expf)
TRIBUNAL_FUNCTION(exp2, exp2f)
TRIBUNAL_FUNCTION(exp10, exp10f)
TRIBUNAL_FUNCTION(log, logf)
TRIBUNAL_FUNCTION(log2, log2f)
TRIBUNAL_FUNCTION(log10, log10f)
TRIBUNAL_FUNCTION(sqrt, sqrtf)
TRIBUNAL_FUNCTION(rsqrt, rsqrtf)
TRIBUNAL_FUNCTION(rcp, __frcp_rn)
TRIBUNAL_FUNCTION(sin, sinf)
TRIBUNAL_FUNCTION(cos, cosf)
TRIBUNAL_FUNCTION(tanh, tanhf)
TRIBUNAL_FUNCTION(floor, floorf)
TRIBUNAL_FUNCTION(ceil, ceilf)
TRIBUNAL_FUNCTION(rint, rintf)
TRIBUNAL_FUNCTION(trunc, truncf)
#undef TRIBUNAL_FUNCTION

// Operators.
#define TRIBUNAL_OPERATOR(operator_, assign, scalar, pair)                                                     \
    TRIBUNAL_DEVICE __nv_bfloat16 operator_(__nv_bfloat16 a, __nv_bfloat16 b) { return scalar(a, b); }                                     \
    TRIBUNAL_DEVICE __nv_bfloat162 operator_(__nv_bfloat162 a, __nv_bfloat162 b) { return pair(a, b); }                                    \
    TRIBUNAL_DEVICE __nv_bfloat16 &assign(__nv_bfloat16 &a, __nv_bfloat16 b) { return a = scalar(a, b); }                                  \
    TRIBUNAL_DEVICE __nv_bfloat162 &assign(__nv_bfloat162 &a, __nv_bfloat162 b) { return a = pair(a, b); }
TRIBUNAL_OPERATOR(operator+, operator+=, __hadd, __hadd2)
TRIBUNAL_OPERATOR(operator-, operator-=, __hsub, __hsub2)
TRIBUNAL_OPERATOR(operator*, operator*=, __hmul, __hmul2)
TRIBUNAL_OPERATOR(operator/, operator/=, __hdiv, __h2div)
#undef TRIBUNAL_OPERATOR
TRIBUNAL_DEVICE __nv_bfloat16 operator-(__nv_bfloat16 a) { return __hneg(a); }
TRIBUNAL_DEVICE __nv_bfloat162 operator-(__nv_bfloat162 a) { return __hneg2(a); }
TRIBUNAL_DEVICE bool operator==(__nv_bfloat16 a, __nv_bfloat16 b) { return __heq(a, b); }
TRIBUNAL_DEVICE bool operator!=(__nv_bfloat16 a, __nv_bfloat16 b) { return !__heq(a, b); }
TRIBUNAL_DEVICE bool operator<(__nv_bfloat16 a, __nv_bfloat16 b) { return __hlt(a, b); }
TRIBUNAL_DEVICE bool operator<=(__nv_bfloat16 a, __nv_bfloat16 b) { return __hle(a, b); }
TRIBUNAL_DEVICE bool operator>(__nv_bfloat16 a, __nv_bfloat16 b) { return __hgt(a, b); }
TRIBUNAL_DEVICE bool operator>=(__nv_bfloat16 a, __nv_bfloat16 b) { return __hge(a, b); }

// Shuffles, loads, atomics.
#define TRIBUNAL_SHUFFLE(name, number)                                                                         \
    TRIBUNAL_DEVICE __nv_bfloat16 name(unsigned int mask, __nv_bfloat16 a, number lane, int width = 32) {                         \
        return __ushort_as_bfloat16((unsigned short)name(mask, (unsigned int)a.tribunal_bits, lane, width));       \
    }                                                                                                         \
    TRIBUNAL_DEVICE __nv_bfloat162 name(unsigned int mask, __nv_bfloat162 a, number lane, int width = 32) {                       \
        return tribunal_nv_bfloat162(name(mask, tribunal_pair(a), lane, width));                                    \
    }
TRIBUNAL_SHUFFLE(__shfl_sync, int)
TRIBUNAL_SHUFFLE(__shfl_up_sync, unsigned int)
TRIBUNAL_SHUFFLE(__shfl_down_sync, unsigned int)
TRIBUNAL_SHUFFLE(__shfl_xor_sync, int)
#undef TRIBUNAL_SHUFFLE
TRIBUNAL_DEVICE __nv_bfloat16 __ldg(const __nv_bfloat16 *p) { return __ushort_as_bfloat16(__ldg((const unsigned short *)p)); }
TRIBUNAL_DEVICE __nv_bfloat162 __ldg(const __nv_bfloat162 *p) { return tribunal_nv_bfloat162(__ldg((const unsigned int *)p)); }
TRIBUNAL_DEVICE __nv_bfloat162 atomicAdd(__nv_bfloat162 *p, __nv_bfloat162 value) {
    // Before compute capability 9.0 there is no such instruction.
    unsigned int seen = *(unsigned int *)p, old;
    do {
        old = seen;
        seen = atomicCAS((unsigned int *)p, old, tribunal_pair(__hadd2(tribunal_nv_bfloat162(old), value)));
    } while (seen != old);
    return tribunal_nv_bfloat162(old);
}

#endif
