// Complex numbers as pairs.
#pragma once

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define TRIBUNAL_COMPLEX(type, part, letter)                                                                   \
    TRIBUNAL_BOTH part cuCreal##letter(type z) { return z.x; }                                                 \
    TRIBUNAL_BOTH part cuCimag##letter(type z) { return z.y; }                                                 \
    TRIBUNAL_BOTH type cuConj##letter(type z) { return type{z.x, -z.y}; }                                      \
    TRIBUNAL_BOTH type cuCadd##letter(type a, type b) { return type{a.x + b.x, a.y + b.y}; }                   \
    TRIBUNAL_BOTH type cuCsub##letter(type a, type b) { return type{a.x - b.x, a.y - b.y}; }                   \
    TRIBUNAL_BOTH type cuCmul##letter(type a, type b) { return type{a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; } \
    TRIBUNAL_BOTH type cuCfma##letter(type a, type b, type c) { return cuCadd##letter(cuCmul##letter(a, b), c); } \
    TRIBUNAL_DEVICE part cuCabs##letter(type z) { return hypot(z.x, z.y); }                                    \
    /* By parts of the divisor's size, so that their squares stay in range. */                               \
    TRIBUNAL_DEVICE type cuCdiv##letter(type a, type b) {                                                      \
        part most = fabs(b.x) + fabs(b.y), x = b.x / most, y = b.y / most, norm = (x * x + y * y) * most;      \
        return type{(a.x * x + a.y * y) / norm, (a.y * x - a.x * y) / norm};                                   \
    }
TRIBUNAL_COMPLEX(cuFloatComplex, float, f)
TRIBUNAL_COMPLEX(cuDoubleComplex, double, )
#undef TRIBUNAL_COMPLEX
TRIBUNAL_BOTH cuFloatComplex make_cuFloatComplex(float x, float y) { return cuFloatComplex{x, y}; }
TRIBUNAL_BOTH cuDoubleComplex make_cuDoubleComplex(double x, double y) { return cuDoubleComplex{x, y}; }
TRIBUNAL_BOTH cuComplex make_cuComplex(float x, float y) { return cuComplex{x, y}; }
TRIBUNAL_BOTH cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) { return cuFloatComplex{(float)z.x, (float)z.y}; }
TRIBUNAL_BOTH cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return cuDoubleComplex{z.x, z.y}; }
