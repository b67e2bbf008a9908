// half and half2: IEEE binary16, by the f16 instructions of PTX.
#pragma once
#ifndef TRIBUNAL_CUDA_FP16
#define TRIBUNAL_CUDA_FP16

struct __half_raw {
    unsigned short x;
};

struct __attribute__((aligned(2))) __half {
    unsigned short tribunal_bits;
    __half() = default;
    TRIBUNAL_BOTH constexpr __half(__half_raw raw) : tribunal_bits(raw.x) {}
    TRIBUNAL_MEMBER __half(float x);
    TRIBUNAL_MEMBER __half(double x);
    TRIBUNAL_MEMBER __half(int x);
    TRIBUNAL_MEMBER __half(unsigned int x);
    TRIBUNAL_MEMBER operator float() const;
    TRIBUNAL_MEMBER explicit operator bool() const { return (tribunal_bits & 0x7fff) != 0; }
};

struct __attribute__((aligned(4))) __half2 {
    __half x, y;
    __half2() = default;
    TRIBUNAL_MEMBER __half2(__half x, __half y) : x(x), y(y) {}
};

typedef __half half;
typedef __half2 half2;

TRIBUNAL_BOTH __half __ushort_as_half(unsigned short bits) { return __half(__half_raw{bits}); }
TRIBUNAL_BOTH __half __short_as_half(short bits) { return __half(__half_raw{(unsigned short)bits}); }
TRIBUNAL_BOTH unsigned short __half_as_ushort(__half x) { return x.tribunal_bits; }
TRIBUNAL_BOTH short __half_as_short(__half x) { return (short)x.tribunal_bits; }
TRIBUNAL_DEVICE unsigned int tribunal_pair(__half2 v) { return __builtin_bit_cast(unsigned int, v); }
TRIBUNAL_DEVICE __half2 tribunal_half2(unsigned int bits) { return __builtin_bit_cast(__half2, bits); }

// Conversions.
TRIBUNAL_DEVICE __half __float2half_rn(float x) {
    unsigned short bits;
    __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return __ushort_as_half(bits);
}
TRIBUNAL_DEVICE __half __float2half_rz(float x) {
    unsigned short bits;
    __asm__("cvt.rz.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return __ushort_as_half(bits);
}
TRIBUNAL_DEVICE __half __float2half(float x) { return __float2half_rn(x); }
TRIBUNAL_DEVICE __half __double2half(double x) {
    unsigned short bits;
    __asm__("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x));
    return __ushort_as_half(bits);
}
TRIBUNAL_DEVICE float __half2float(__half x) {
    float wide;
    __asm__("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.tribunal_bits));
    return wide;
}
TRIBUNAL_MEMBER __half::__half(float x) : tribunal_bits(__float2half_rn(x).tribunal_bits) {}
TRIBUNAL_MEMBER __half::__half(double x) : tribunal_bits(__double2half(x).tribunal_bits) {}
TRIBUNAL_MEMBER __half::__half(int x) : tribunal_bits(__double2half(x).tribunal_bits) {}
TRIBUNAL_MEMBER __half::__half(unsigned int x) : tribunal_bits(__double2half(x).tribunal_bits) {}
TRIBUNAL_MEMBER __half::operator float() const { return __half2float(*this); }
TRIBUNAL_DEVICE __half __int2half_rn(int x) { return __double2half(x); }
TRIBUNAL_DEVICE __half __uint2half_rn(unsigned int x) { return __double2half(x); }
TRIBUNAL_DEVICE int __half2int_rn(__half x) { return __float2int_rn(__half2float(x)); }
TRIBUNAL_DEVICE int __half2int_rz(__half x) { return __float2int_rz(__half2float(x)); }
TRIBUNAL_DEVICE unsigned int __half2uint_rn(__half x) { return __float2uint_rn(__half2float(x)); }

// Pairs.
TRIBUNAL_DEVICE __half2 make_half2(__half x, __half y) { return __half2(x, y); }
TRIBUNAL_DEVICE __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
TRIBUNAL_DEVICE __half2 __half2half2(__half x) { return __half2(x, x); }
TRIBUNAL_DEVICE __half2 __float2half2_rn(float x) { return __half2half2(__float2half_rn(x)); }
TRIBUNAL_DEVICE __half2 __floats2half2_rn(float x, float y) { return __half2(__float2half_rn(x), __float2half_rn(y)); }
TRIBUNAL_DEVICE __half2 __float22half2_rn(float2 v) { return __floats2half2_rn(v.x, v.y); }
TRIBUNAL_DEVICE float2 __half22float2(__half2 v) { return make_float2(__half2float(v.x), __half2float(v.y)); }
TRIBUNAL_DEVICE __half __low2half(__half2 v) { return v.x; }
TRIBUNAL_DEVICE __half __high2half(__half2 v) { return v.y; }
TRIBUNAL_DEVICE float __low2float(__half2 v) { return __half2float(v.x); }
TRIBUNAL_DEVICE float __high2float(__half2 v) { return __half2float(v.y); }
TRIBUNAL_DEVICE __half2 __low2half2(__half2 v) { return __half2(v.x, v.x); }
TRIBUNAL_DEVICE __half2 __high2half2(__half2 v) { return __half2(v.y, v.y); }
TRIBUNAL_DEVICE __half2 __lows2half2(__half2 v, __half2 w) { return __half2(v.x, w.x); }
TRIBUNAL_DEVICE __half2 __highs2half2(__half2 v, __half2 w) { return __half2(v.y, w.y); }
TRIBUNAL_DEVICE __half2 __lowhigh2highlow(__half2 v) { return __half2(v.y, v.x); }

// Arithmetic; names with 2 work on both halves.
#define TRIBUNAL_HALF(name, text, arguments, scalars, pairs)                                                    \
    TRIBUNAL_DEVICE __half name(TRIBUNAL_ARGUMENTS##arguments(__half)) {                                            \
        unsigned short r;                                                                                      \
        __asm__(text(".f16") : "=h"(r) : scalars);                                                             \
        return __ushort_as_half(r);                                                                            \
    }                                                                                                         \
    TRIBUNAL_DEVICE __half2 name##2(TRIBUNAL_ARGUMENTS##arguments(__half2)) {                                       \
        unsigned int r;                                                                                        \
        __asm__(text(".f16x2") : "=r"(r) : pairs);                                                              \
        return tribunal_half2(r);                                                                            \
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
#define TRIBUNAL_TEXT(t) "add" t " %0, %1, %2;"
TRIBUNAL_HALF(__hadd, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "sub" t " %0, %1, %2;"
TRIBUNAL_HALF(__hsub, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "mul" t " %0, %1, %2;"
TRIBUNAL_HALF(__hmul, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "add.rn" t " %0, %1, %2;"
TRIBUNAL_HALF(__hadd_rn, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "sub.rn" t " %0, %1, %2;"
TRIBUNAL_HALF(__hsub_rn, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "mul.rn" t " %0, %1, %2;"
TRIBUNAL_HALF(__hmul_rn, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "add.sat" t " %0, %1, %2;"
TRIBUNAL_HALF(__hadd_sat, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "mul.sat" t " %0, %1, %2;"
TRIBUNAL_HALF(__hmul_sat, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "fma.rn" t " %0, %1, %2, %3;"
TRIBUNAL_HALF(__hfma, TRIBUNAL_TEXT, 3, TRIBUNAL_HALF3, TRIBUNAL_PAIR3)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "fma.rn.sat" t " %0, %1, %2, %3;"
TRIBUNAL_HALF(__hfma_sat, TRIBUNAL_TEXT, 3, TRIBUNAL_HALF3, TRIBUNAL_PAIR3)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "fma.rn.relu" t " %0, %1, %2, %3;"
TRIBUNAL_HALF(__hfma_relu, TRIBUNAL_TEXT, 3, TRIBUNAL_HALF3, TRIBUNAL_PAIR3)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "neg" t " %0, %1;"
TRIBUNAL_HALF(__hneg, TRIBUNAL_TEXT, 1, TRIBUNAL_HALF1, TRIBUNAL_PAIR1)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "abs" t " %0, %1;"
TRIBUNAL_HALF(__habs, TRIBUNAL_TEXT, 1, TRIBUNAL_HALF1, TRIBUNAL_PAIR1)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "min" t " %0, %1, %2;"
TRIBUNAL_HALF(__hmin, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "min.NaN" t " %0, %1, %2;"
TRIBUNAL_HALF(__hmin_nan, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "max" t " %0, %1, %2;"
TRIBUNAL_HALF(__hmax, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#define TRIBUNAL_TEXT(t) "max.NaN" t " %0, %1, %2;"
TRIBUNAL_HALF(__hmax_nan, TRIBUNAL_TEXT, 2, TRIBUNAL_HALF2, TRIBUNAL_PAIR2)
#undef TRIBUNAL_TEXT
#undef TRIBUNAL_HALF
#undef TRIBUNAL_ARGUMENTS1
#undef TRIBUNAL_ARGUMENTS2
#undef TRIBUNAL_ARGUMENTS3
#undef TRIBUNAL_HALF1
#undef TRIBUNAL_HALF2
#undef TRIBUNAL_HALF3
#undef TRIBUNAL_PAIR1
#undef TRIBUNAL_PAIR2
#undef TRIBUNAL_PAIR3

TRIBUNAL_DEVICE __half __hdiv(__half a, __half b) { return __float2half_rn(__half2float(a) / __half2float(b)); }
TRIBUNAL_DEVICE __half2 __h2div(__half2 a, __half2 b) { return __half2(__hdiv(a.x, b.x), __hdiv(a.y, b.y)); }

// Comparisons: false where one is a NaN; names with u true then. Of pairs, 1 or 0 for each half, or with b whether both hold.
#define TRIBUNAL_COMPARE(name, operator)                                                                       \
    TRIBUNAL_DEVICE bool name(__half a, __half b) { return __half2float(a) operator __half2float(b); }             \
    TRIBUNAL_DEVICE bool name##u(__half a, __half b) {                                                              \
        float x = __half2float(a), y = __half2float(b);                                                        \
        return x operator y || x != x || y != y;                                                               \
    }                                                                                                         \
    TRIBUNAL_DEVICE __half2 name##2(__half2 a, __half2 b) {                                                            \
        return __half2(__half(name(a.x, b.x) ? 1.0f : 0.0f), __half(name(a.y, b.y) ? 1.0f : 0.0f));                     \
    }
TRIBUNAL_COMPARE(__heq, ==)
TRIBUNAL_COMPARE(__hlt, <)
TRIBUNAL_COMPARE(__hle, <=)
TRIBUNAL_COMPARE(__hgt, >)
TRIBUNAL_COMPARE(__hge, >=)
#undef TRIBUNAL_COMPARE
TRIBUNAL_DEVICE bool __hne(__half a, __half b) {
    float x = __half2float(a), y = __half2float(b);
    return x < y || x > y;
}
TRIBUNAL_DEVICE bool __hbeq2(__half2 a, __half2 b) { return __heq(a.x, b.x) && __heq(a.y, b.y); }
TRIBUNAL_DEVICE bool __hblt2(__half2 a, __half2 b) { return __hlt(a.x, b.x) && __hlt(a.y, b.y); }
TRIBUNAL_DEVICE bool __hbgt2(__half2 a, __half2 b) { return __hgt(a.x, b.x) && __hgt(a.y, b.y); }
TRIBUNAL_DEVICE bool __hisnan(__half a) { return isnan(__half2float(a)); }
TRIBUNAL_DEVICE int __hisinf(__half a) {
    float x = __half2float(a);
    return isinf(x) ? (x < 0.0f ? -1 : 1) : 0;
}

// Functions: those of float, rounded.
#define TRIBUNAL_FUNCTION(name, function)                                                                      \
    TRIBUNAL_DEVICE __half h##name(__half a) { return __float2half_rn(function(__half2float(a))); }                \
    TRIBUNAL_DEVICE __half2 h2##name(__half2 a) { return __half2(h##name(a.x), h##name(a.y)); }
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
    TRIBUNAL_DEVICE __half operator_(__half a, __half b) { return scalar(a, b); }                                     \
    TRIBUNAL_DEVICE __half2 operator_(__half2 a, __half2 b) { return pair(a, b); }                                    \
    TRIBUNAL_DEVICE __half &assign(__half &a, __half b) { return a = scalar(a, b); }                                  \
    TRIBUNAL_DEVICE __half2 &assign(__half2 &a, __half2 b) { return a = pair(a, b); }
TRIBUNAL_OPERATOR(operator+, operator+=, __hadd, __hadd2)
TRIBUNAL_OPERATOR(operator-, operator-=, __hsub, __hsub2)
TRIBUNAL_OPERATOR(operator*, operator*=, __hmul, __hmul2)
TRIBUNAL_OPERATOR(operator/, operator/=, __hdiv, __h2div)
#undef TRIBUNAL_OPERATOR
TRIBUNAL_DEVICE __half operator-(__half a) { return __hneg(a); }
TRIBUNAL_DEVICE __half2 operator-(__half2 a) { return __hneg2(a); }
TRIBUNAL_DEVICE bool operator==(__half a, __half b) { return __heq(a, b); }
TRIBUNAL_DEVICE bool operator!=(__half a, __half b) { return !__heq(a, b); }
TRIBUNAL_DEVICE bool operator<(__half a, __half b) { return __hlt(a, b); }
TRIBUNAL_DEVICE bool operator<=(__half a, __half b) { return __hle(a, b); }
TRIBUNAL_DEVICE bool operator>(__half a, __half b) { return __hgt(a, b); }
TRIBUNAL_DEVICE bool operator>=(__half a, __half b) { return __hge(a, b); }

// Shuffles, loads, atomics.
#define TRIBUNAL_SHUFFLE(name, number)                                                                         \
    TRIBUNAL_DEVICE __half name(unsigned int mask, __half a, number lane, int width = 32) {                         \
        return __ushort_as_half((unsigned short)name(mask, (unsigned int)a.tribunal_bits, lane, width));       \
    }                                                                                                         \
    TRIBUNAL_DEVICE __half2 name(unsigned int mask, __half2 a, number lane, int width = 32) {                       \
        return tribunal_half2(name(mask, tribunal_pair(a), lane, width));                                    \
    }
TRIBUNAL_SHUFFLE(__shfl_sync, int)
TRIBUNAL_SHUFFLE(__shfl_up_sync, unsigned int)
TRIBUNAL_SHUFFLE(__shfl_down_sync, unsigned int)
TRIBUNAL_SHUFFLE(__shfl_xor_sync, int)
#undef TRIBUNAL_SHUFFLE
TRIBUNAL_DEVICE __half __ldg(const __half *p) { return __ushort_as_half(__ldg((const unsigned short *)p)); }
TRIBUNAL_DEVICE __half2 __ldg(const __half2 *p) { return tribunal_half2(__ldg((const unsigned int *)p)); }
TRIBUNAL_DEVICE __half2 atomicAdd(__half2 *p, __half2 value) {
    unsigned int old;
    __asm__ volatile("atom.add.noftz.f16x2 %0, [%1], %2;"
                     : "=r"(old)
                     : "l"(p), "r"(tribunal_pair(value))
                     : "memory");
    return tribunal_half2(old);
}
TRIBUNAL_DEVICE __half atomicAdd(__half *p, __half value) {
    unsigned short old;
    __asm__ volatile("atom.add.noftz.f16 %0, [%1], %2;"
                     : "=h"(old)
                     : "l"(p), "h"(value.tribunal_bits)
                     : "memory");
    return __ushort_as_half(old);
}

#endif
