// 8-bit floats, e4m3 and e5m2, alone, in pairs and in fours: kept and converted, not calculated with.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

// To the nearest, ties to even. What is too large becomes the largest, or infinity, which is NaN in e4m3.
TRIBUNAL_DEVICE __nv_fp8_storage_t __nv_cvt_float_to_fp8(
    float x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    const unsigned int digits = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
    const unsigned int largest = kind == __NV_E4M3 ? 0x7e : 0x7b, cut = 23 - digits;
    unsigned int bits = __float_as_uint(x), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return 0x7f;
    unsigned int code;
    if (size < (128 - bias) << 23) {
        // Subnormal: a sum with what has the smallest number for its last digit.
        unsigned int unit = (151 - bias - digits) << 23;
        code = __float_as_uint(__fadd_rn(__uint_as_float(size), __uint_as_float(unit))) - unit;
    } else {
        code = (size - ((127 - bias) << 23) + ((1u << (cut - 1)) - 1) + (size >> cut & 1)) >> cut;
    }
    if (code > largest) code = saturation == __NV_SATFINITE ? largest : largest + 1;
    return (__nv_fp8_storage_t)(sign | code);
}
TRIBUNAL_DEVICE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    unsigned int sign = (x & 0x80u) << 8, size = x & 0x7f;
    if (size > (kind == __NV_E4M3 ? 0x7e : 0x7c)) return __half_raw{0x7fff};
    if (kind == __NV_E5M2) return __half_raw{(unsigned short)(x << 8)};
    // Exponents of half are larger by 8.
    return __hmul(__ushort_as_half((unsigned short)(sign | size << 7)), __ushort_as_half(0x5c00));
}

TRIBUNAL_DEVICE __nv_fp8_storage_t __nv_cvt_double_to_fp8(
    double x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8(tribunal_odd(x), saturation, kind);
}
TRIBUNAL_DEVICE __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(
    __half_raw x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8((float)__half(x), saturation, kind);
}
TRIBUNAL_DEVICE __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(
    __nv_bfloat16_raw x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8((float)__nv_bfloat16(x), saturation, kind);
}
#define TRIBUNAL_PAIR(name, from, one)                                                                         \
    TRIBUNAL_DEVICE __nv_fp8x2_storage_t name(                                                                 \
        from v, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {                                \
        return (__nv_fp8x2_storage_t)(one(v.x, saturation, kind) | one(v.y, saturation, kind) << 8);           \
    }
TRIBUNAL_PAIR(__nv_cvt_float2_to_fp8x2, float2, __nv_cvt_float_to_fp8)
TRIBUNAL_PAIR(__nv_cvt_double2_to_fp8x2, double2, __nv_cvt_double_to_fp8)
#undef TRIBUNAL_PAIR
TRIBUNAL_DEVICE __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(
    __half2_raw v, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float2_to_fp8x2(__half22float2(__half2(v)), saturation, kind);
}
TRIBUNAL_DEVICE __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(
    __nv_bfloat162_raw v, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float2_to_fp8x2(__bfloat1622float2(__nv_bfloat162(v)), saturation, kind);
}
TRIBUNAL_DEVICE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t v, __nv_fp8_interpretation_t kind) {
    return __half2_raw{
        __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)v, kind).x,
        __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(v >> 8), kind).x};
}

#define TRIBUNAL_FROM(type)                                                                                    \
    explicit TRIBUNAL_MEMBER TRIBUNAL_ONE(type x) : __x(__nv_cvt_float_to_fp8((float)x, __NV_SATFINITE, kind)) {}
#define TRIBUNAL_TO(type)                                                                                      \
    explicit TRIBUNAL_MEMBER operator type() const { return (type)__half(__nv_cvt_fp8_to_halfraw(__x, kind)); }
#define TRIBUNAL_BOTH_WAYS(type) TRIBUNAL_FROM(type) TRIBUNAL_TO(type)
#define TRIBUNAL_TYPES(one, pair, four, kind_)                                                                 \
    struct one {                                                                                               \
        static constexpr __nv_fp8_interpretation_t kind = kind_;                                               \
        __nv_fp8_storage_t __x;                                                                                \
        one() = default;                                                                                       \
        explicit TRIBUNAL_MEMBER one(double x) : __x(__nv_cvt_double_to_fp8(x, __NV_SATFINITE, kind)) {}       \
        TRIBUNAL_TO(double)                                                                                    \
        TRIBUNAL_TO(bool)                                                                                      \
        TRIBUNAL_BOTH_WAYS(float)                                                                              \
        TRIBUNAL_BOTH_WAYS(__half)                                                                             \
        TRIBUNAL_FROM(__nv_bfloat16)                                                                           \
        explicit TRIBUNAL_MEMBER operator __nv_bfloat16() const { return __nv_bfloat16((float)*this); }        \
        TRIBUNAL_TO(char)                                                                                      \
        TRIBUNAL_TO(signed char)                                                                               \
        TRIBUNAL_TO(unsigned char)                                                                             \
        TRIBUNAL_BOTH_WAYS(short)                                                                              \
        TRIBUNAL_BOTH_WAYS(unsigned short)                                                                     \
        TRIBUNAL_BOTH_WAYS(int)                                                                                \
        TRIBUNAL_BOTH_WAYS(unsigned int)                                                                       \
        TRIBUNAL_BOTH_WAYS(long)                                                                               \
        TRIBUNAL_BOTH_WAYS(unsigned long)                                                                      \
        TRIBUNAL_BOTH_WAYS(long long)                                                                          \
        TRIBUNAL_BOTH_WAYS(unsigned long long)                                                                 \
    };                                                                                                         \
    struct pair {                                                                                              \
        __nv_fp8x2_storage_t __x;                                                                              \
        pair() = default;                                                                                      \
        explicit TRIBUNAL_MEMBER pair(float2 v) : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, kind_)) {}   \
        explicit TRIBUNAL_MEMBER pair(double2 v) : __x(__nv_cvt_double2_to_fp8x2(v, __NV_SATFINITE, kind_)) {} \
        explicit TRIBUNAL_MEMBER pair(__half2 v) : pair(__half22float2(v)) {}                                  \
        explicit TRIBUNAL_MEMBER pair(__nv_bfloat162 v) : pair(__bfloat1622float2(v)) {}                       \
        explicit TRIBUNAL_MEMBER operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, kind_); }   \
        explicit TRIBUNAL_MEMBER operator float2() const { return __half22float2((__half2)*this); }            \
    };                                                                                                         \
    struct four {                                                                                              \
        __nv_fp8x4_storage_t __x;                                                                              \
        four() = default;                                                                                      \
        TRIBUNAL_MEMBER four(pair low, pair high) : __x(low.__x | (unsigned int)high.__x << 16) {}             \
        explicit TRIBUNAL_MEMBER four(float4 v)                                                                \
            : four(pair(make_float2(v.x, v.y)), pair(make_float2(v.z, v.w))) {}                                \
        explicit TRIBUNAL_MEMBER four(double4 v)                                                               \
            : four(pair(make_double2(v.x, v.y)), pair(make_double2(v.z, v.w))) {}                              \
        TRIBUNAL_MEMBER four(__half2 low, __half2 high) : four(pair(low), pair(high)) {}                       \
        TRIBUNAL_MEMBER four(__nv_bfloat162 low, __nv_bfloat162 high) : four(pair(low), pair(high)) {}         \
        explicit TRIBUNAL_MEMBER operator float4() const {                                                     \
            pair low, high;                                                                                    \
            low.__x = (__nv_fp8x2_storage_t)__x;                                                               \
            high.__x = (__nv_fp8x2_storage_t)(__x >> 16);                                                      \
            float2 a = (float2)low, b = (float2)high;                                                          \
            return make_float4(a.x, a.y, b.x, b.y);                                                            \
        }                                                                                                      \
    };
#define TRIBUNAL_ONE __nv_fp8_e4m3
TRIBUNAL_TYPES(__nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3, __NV_E4M3)
#undef TRIBUNAL_ONE
#define TRIBUNAL_ONE __nv_fp8_e5m2
TRIBUNAL_TYPES(__nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2, __NV_E5M2)
#undef TRIBUNAL_ONE
#undef TRIBUNAL_FROM
#undef TRIBUNAL_TO
#undef TRIBUNAL_BOTH_WAYS
#undef TRIBUNAL_TYPES
