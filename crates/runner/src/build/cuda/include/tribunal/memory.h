// Loads and stores with a cache hint, address spaces, atomics.
#pragma once

// Addresses within a space, as PTX's instructions for that space take them.
TRIBUNAL_DEVICE size_t __cvta_generic_to_global(const void *p) {
    return (size_t)(const __attribute__((address_space(1))) void *)p;
}
TRIBUNAL_DEVICE size_t __cvta_generic_to_shared(const void *p) {
    return (size_t)(const __attribute__((address_space(3))) void *)p;
}
TRIBUNAL_DEVICE size_t __cvta_generic_to_local(const void *p) {
    return (size_t)(const __attribute__((address_space(5))) void *)p;
}
TRIBUNAL_DEVICE size_t __cvta_generic_to_constant(const void *p) {
    return (size_t)(const __attribute__((address_space(4))) void *)p;
}
TRIBUNAL_DEVICE void *__cvta_global_to_generic(size_t p) { return (void *)(__attribute__((address_space(1))) void *)p; }
TRIBUNAL_DEVICE void *__cvta_shared_to_generic(size_t p) { return (void *)(__attribute__((address_space(3))) void *)p; }
TRIBUNAL_DEVICE void *__cvta_local_to_generic(size_t p) { return (void *)(__attribute__((address_space(5))) void *)p; }
TRIBUNAL_DEVICE void *__cvta_constant_to_generic(size_t p) { return (void *)(__attribute__((address_space(4))) void *)p; }
TRIBUNAL_DEVICE unsigned int __isLocal(const void *p) { return __nvvm_isspacep_local(p); }
TRIBUNAL_DEVICE unsigned int __isConstant(const void *p) { return __nvvm_isspacep_const(p); }
TRIBUNAL_DEVICE unsigned int __isShared(const void *p) { return __nvvm_isspacep_shared(p); }
TRIBUNAL_DEVICE unsigned int __isGlobal(const void *p) { return __nvvm_isspacep_global(p); }

// Reads that go past the first cache (cg), are used once (cs), anywhere (ca), or of memory that the launch does not write (ldg).
#define TRIBUNAL_LOAD(name, hint, type, suffix, letter, bits)                                                  \
    TRIBUNAL_DEVICE type name(const type *p) {                                                                 \
        bits x;                                                                                                \
        __asm__ volatile("ld.global" hint suffix " %0, [%1];" : letter(x) : "l"(__cvta_generic_to_global(p))); \
        return (type)x;                                                                                        \
    }
#define TRIBUNAL_LOAD2(name, hint, type, suffix, letter)                                                       \
    TRIBUNAL_DEVICE type name(const type *p) {                                                                 \
        type v;                                                                                                \
        __asm__ volatile("ld.global" hint ".v2" suffix " {%0, %1}, [%2];"                                      \
                         : letter(v.x), letter(v.y)                                                            \
                         : "l"(__cvta_generic_to_global(p)));                                                  \
        return v;                                                                                              \
    }
#define TRIBUNAL_LOAD4(name, hint, type, suffix, letter)                                                       \
    TRIBUNAL_DEVICE type name(const type *p) {                                                                 \
        type v;                                                                                                \
        __asm__ volatile("ld.global" hint ".v4" suffix " {%0, %1, %2, %3}, [%4];"                              \
                         : letter(v.x), letter(v.y), letter(v.z), letter(v.w)                                  \
                         : "l"(__cvta_generic_to_global(p)));                                                  \
        return v;                                                                                              \
    }
// Vectors of bytes are read as one number of as many bits.
#define TRIBUNAL_LOAD_AS(name, type, bits)                                                                     \
    TRIBUNAL_DEVICE type name(const type *p) { return __builtin_bit_cast(type, name((const bits *)p)); }
#define TRIBUNAL_LOADS(name, hint)                                                                             \
    TRIBUNAL_LOAD(name, hint, char, ".s8", "=h", short)                                                        \
    TRIBUNAL_LOAD(name, hint, signed char, ".s8", "=h", short)                                                 \
    TRIBUNAL_LOAD(name, hint, unsigned char, ".u8", "=h", unsigned short)                                      \
    TRIBUNAL_LOAD(name, hint, short, ".s16", "=h", short)                                                      \
    TRIBUNAL_LOAD(name, hint, unsigned short, ".u16", "=h", unsigned short)                                    \
    TRIBUNAL_LOAD(name, hint, int, ".s32", "=r", int)                                                          \
    TRIBUNAL_LOAD(name, hint, unsigned int, ".u32", "=r", unsigned int)                                        \
    TRIBUNAL_LOAD(name, hint, long, ".s64", "=l", long)                                                        \
    TRIBUNAL_LOAD(name, hint, unsigned long, ".u64", "=l", unsigned long)                                      \
    TRIBUNAL_LOAD(name, hint, long long, ".s64", "=l", long long)                                              \
    TRIBUNAL_LOAD(name, hint, unsigned long long, ".u64", "=l", unsigned long long)                            \
    TRIBUNAL_LOAD(name, hint, float, ".f32", "=f", float)                                                      \
    TRIBUNAL_LOAD(name, hint, double, ".f64", "=d", double)                                                    \
    TRIBUNAL_LOAD2(name, hint, int2, ".s32", "=r")                                                             \
    TRIBUNAL_LOAD2(name, hint, uint2, ".u32", "=r")                                                            \
    TRIBUNAL_LOAD2(name, hint, longlong2, ".s64", "=l")                                                        \
    TRIBUNAL_LOAD2(name, hint, ulonglong2, ".u64", "=l")                                                       \
    TRIBUNAL_LOAD2(name, hint, float2, ".f32", "=f")                                                           \
    TRIBUNAL_LOAD2(name, hint, double2, ".f64", "=d")                                                          \
    TRIBUNAL_LOAD2(name, hint, short2, ".s16", "=h")                                                           \
    TRIBUNAL_LOAD2(name, hint, ushort2, ".u16", "=h")                                                          \
    TRIBUNAL_LOAD4(name, hint, int4, ".s32", "=r")                                                             \
    TRIBUNAL_LOAD4(name, hint, uint4, ".u32", "=r")                                                            \
    TRIBUNAL_LOAD4(name, hint, float4, ".f32", "=f")                                                           \
    TRIBUNAL_LOAD4(name, hint, short4, ".s16", "=h")                                                           \
    TRIBUNAL_LOAD4(name, hint, ushort4, ".u16", "=h")                                                          \
    TRIBUNAL_LOAD_AS(name, char2, unsigned short)                                                              \
    TRIBUNAL_LOAD_AS(name, uchar2, unsigned short)                                                             \
    TRIBUNAL_LOAD_AS(name, char4, unsigned int)                                                                \
    TRIBUNAL_LOAD_AS(name, uchar4, unsigned int)
TRIBUNAL_LOADS(__ldg, ".nc")
TRIBUNAL_LOADS(__ldcg, ".cg")
TRIBUNAL_LOADS(__ldca, ".ca")
TRIBUNAL_LOADS(__ldcs, ".cs")
TRIBUNAL_LOADS(__ldlu, ".lu")
TRIBUNAL_LOADS(__ldcv, ".cv")
#undef TRIBUNAL_LOAD
#undef TRIBUNAL_LOAD2
#undef TRIBUNAL_LOAD4
#undef TRIBUNAL_LOAD_AS
#undef TRIBUNAL_LOADS

#define TRIBUNAL_STORE(name, hint, type, suffix, letter, bits)                                                 \
    TRIBUNAL_DEVICE void name(type *p, type x) {                                                               \
        __asm__ volatile("st.global" hint suffix " [%0], %1;"                                                  \
                         :                                                                                     \
                         : "l"(__cvta_generic_to_global(p)), letter((bits)x)                                   \
                         : "memory");                                                                          \
    }
#define TRIBUNAL_STORE2(name, hint, type, suffix, letter)                                                      \
    TRIBUNAL_DEVICE void name(type *p, type v) {                                                               \
        __asm__ volatile("st.global" hint ".v2" suffix " [%0], {%1, %2};"                                      \
                         :                                                                                     \
                         : "l"(__cvta_generic_to_global(p)), letter(v.x), letter(v.y)                          \
                         : "memory");                                                                          \
    }
#define TRIBUNAL_STORE4(name, hint, type, suffix, letter)                                                      \
    TRIBUNAL_DEVICE void name(type *p, type v) {                                                               \
        __asm__ volatile("st.global" hint ".v4" suffix " [%0], {%1, %2, %3, %4};"                              \
                         :                                                                                     \
                         : "l"(__cvta_generic_to_global(p)), letter(v.x), letter(v.y), letter(v.z), letter(v.w) \
                         : "memory");                                                                          \
    }
#define TRIBUNAL_STORE_AS(name, type, bits)                                                                    \
    TRIBUNAL_DEVICE void name(type *p, type v) { name((bits *)p, __builtin_bit_cast(bits, v)); }
#define TRIBUNAL_STORES(name, hint)                                                                            \
    TRIBUNAL_STORE(name, hint, char, ".s8", "h", short)                                                        \
    TRIBUNAL_STORE(name, hint, signed char, ".s8", "h", short)                                                 \
    TRIBUNAL_STORE(name, hint, unsigned char, ".u8", "h", unsigned short)                                      \
    TRIBUNAL_STORE(name, hint, short, ".s16", "h", short)                                                      \
    TRIBUNAL_STORE(name, hint, unsigned short, ".u16", "h", unsigned short)                                    \
    TRIBUNAL_STORE(name, hint, int, ".s32", "r", int)                                                          \
    TRIBUNAL_STORE(name, hint, unsigned int, ".u32", "r", unsigned int)                                        \
    TRIBUNAL_STORE(name, hint, long, ".s64", "l", long)                                                        \
    TRIBUNAL_STORE(name, hint, unsigned long, ".u64", "l", unsigned long)                                      \
    TRIBUNAL_STORE(name, hint, long long, ".s64", "l", long long)                                              \
    TRIBUNAL_STORE(name, hint, unsigned long long, ".u64", "l", unsigned long long)                            \
    TRIBUNAL_STORE(name, hint, float, ".f32", "f", float)                                                      \
    TRIBUNAL_STORE(name, hint, double, ".f64", "d", double)                                                    \
    TRIBUNAL_STORE2(name, hint, int2, ".s32", "r")                                                             \
    TRIBUNAL_STORE2(name, hint, uint2, ".u32", "r")                                                            \
    TRIBUNAL_STORE2(name, hint, longlong2, ".s64", "l")                                                        \
    TRIBUNAL_STORE2(name, hint, ulonglong2, ".u64", "l")                                                       \
    TRIBUNAL_STORE2(name, hint, float2, ".f32", "f")                                                           \
    TRIBUNAL_STORE2(name, hint, double2, ".f64", "d")                                                          \
    TRIBUNAL_STORE2(name, hint, short2, ".s16", "h")                                                           \
    TRIBUNAL_STORE2(name, hint, ushort2, ".u16", "h")                                                          \
    TRIBUNAL_STORE4(name, hint, int4, ".s32", "r")                                                             \
    TRIBUNAL_STORE4(name, hint, uint4, ".u32", "r")                                                            \
    TRIBUNAL_STORE4(name, hint, float4, ".f32", "f")                                                           \
    TRIBUNAL_STORE4(name, hint, short4, ".s16", "h")                                                           \
    TRIBUNAL_STORE4(name, hint, ushort4, ".u16", "h")                                                          \
    TRIBUNAL_STORE_AS(name, char2, unsigned short)                                                             \
    TRIBUNAL_STORE_AS(name, uchar2, unsigned short)                                                            \
    TRIBUNAL_STORE_AS(name, char4, unsigned int)                                                               \
    TRIBUNAL_STORE_AS(name, uchar4, unsigned int)
TRIBUNAL_STORES(__stwb, ".wb")
TRIBUNAL_STORES(__stcg, ".cg")
TRIBUNAL_STORES(__stcs, ".cs")
TRIBUNAL_STORES(__stwt, ".wt")
#undef TRIBUNAL_STORE
#undef TRIBUNAL_STORE2
#undef TRIBUNAL_STORE4
#undef TRIBUNAL_STORE_AS
#undef TRIBUNAL_STORES

// Atomics of the device's scope; `_block` are those of the block, and `_system` those of the device.
#define TRIBUNAL_SCOPES(name, type, device, block)                                                             \
    TRIBUNAL_DEVICE type name(type *p, type value) { return device; }                                          \
    TRIBUNAL_DEVICE type name##_block(type *p, type value) { return block; }                                   \
    TRIBUNAL_DEVICE type name##_system(type *p, type value) { return device; }
#define TRIBUNAL_ATOMIC(name, type, builtin, suffix, as)                                                       \
    TRIBUNAL_SCOPES(name, type, (type)__nvvm_atom_##builtin##_gen_##suffix((as *)p, (as)value),                \
                    (type)__nvvm_atom_cta_##builtin##_gen_##suffix((as *)p, (as)value))
// clang makes signed ones of these within a block.
#define TRIBUNAL_ORDER(name, type, builtin, suffix, width, letter)                                             \
    TRIBUNAL_DEVICE type tribunal_block_##builtin(type *p, type value) {                                       \
        type old;                                                                                              \
        __asm__ volatile("atom.cta." #builtin "." width " %0, [%1], %2;"                                       \
                         : "=" letter(old)                                                                     \
                         : "l"(p), letter(value)                                                               \
                         : "memory");                                                                          \
        return old;                                                                                            \
    }                                                                                                          \
    TRIBUNAL_SCOPES(name, type, __nvvm_atom_##builtin##_gen_##suffix(p, value), tribunal_block_##builtin(p, value))
TRIBUNAL_ATOMIC(atomicAdd, int, add, i, int)
TRIBUNAL_ATOMIC(atomicAdd, unsigned int, add, i, int)
TRIBUNAL_ATOMIC(atomicAdd, unsigned long long, add, ll, long long)
TRIBUNAL_ATOMIC(atomicAdd, float, add, f, float)
TRIBUNAL_ATOMIC(atomicAdd, double, add, d, double)
TRIBUNAL_ATOMIC(atomicMin, int, min, i, int)
TRIBUNAL_ORDER(atomicMin, unsigned int, min, ui, "u32", "r")
TRIBUNAL_ATOMIC(atomicMin, long long, min, ll, long long)
TRIBUNAL_ORDER(atomicMin, unsigned long long, min, ull, "u64", "l")
TRIBUNAL_ATOMIC(atomicMax, int, max, i, int)
TRIBUNAL_ORDER(atomicMax, unsigned int, max, ui, "u32", "r")
TRIBUNAL_ATOMIC(atomicMax, long long, max, ll, long long)
TRIBUNAL_ORDER(atomicMax, unsigned long long, max, ull, "u64", "l")
TRIBUNAL_ATOMIC(atomicExch, int, xchg, i, int)
TRIBUNAL_ATOMIC(atomicExch, unsigned int, xchg, i, int)
TRIBUNAL_ATOMIC(atomicExch, long long, xchg, ll, long long)
TRIBUNAL_ATOMIC(atomicExch, unsigned long long, xchg, ll, long long)
TRIBUNAL_ATOMIC(atomicAnd, int, and, i, int)
TRIBUNAL_ATOMIC(atomicAnd, unsigned int, and, i, int)
TRIBUNAL_ATOMIC(atomicAnd, long long, and, ll, long long)
TRIBUNAL_ATOMIC(atomicAnd, unsigned long long, and, ll, long long)
TRIBUNAL_ATOMIC(atomicOr, int, or, i, int)
TRIBUNAL_ATOMIC(atomicOr, unsigned int, or, i, int)
TRIBUNAL_ATOMIC(atomicOr, long long, or, ll, long long)
TRIBUNAL_ATOMIC(atomicOr, unsigned long long, or, ll, long long)
TRIBUNAL_ATOMIC(atomicXor, int, xor, i, int)
TRIBUNAL_ATOMIC(atomicXor, unsigned int, xor, i, int)
TRIBUNAL_ATOMIC(atomicXor, long long, xor, ll, long long)
TRIBUNAL_ATOMIC(atomicXor, unsigned long long, xor, ll, long long)
TRIBUNAL_ATOMIC(atomicInc, unsigned int, inc, ui, unsigned int)
TRIBUNAL_ATOMIC(atomicDec, unsigned int, dec, ui, unsigned int)
#undef TRIBUNAL_ATOMIC
#undef TRIBUNAL_ORDER
TRIBUNAL_SCOPES(atomicSub, int, atomicAdd(p, -value), atomicAdd_block(p, -value))
TRIBUNAL_SCOPES(atomicSub, unsigned int, atomicAdd(p, 0u - value), atomicAdd_block(p, 0u - value))
TRIBUNAL_SCOPES(atomicExch, float, __int_as_float(atomicExch((int *)p, __float_as_int(value))),
                __int_as_float(atomicExch_block((int *)p, __float_as_int(value))))
#undef TRIBUNAL_SCOPES

#define TRIBUNAL_CAS(scope, type, builtin, as)                                                                 \
    TRIBUNAL_DEVICE type atomicCAS##scope(type *p, type compare, type value) {                                 \
        return (type)__nvvm_atom_##builtin((as *)p, (as)compare, (as)value);                                   \
    }
#define TRIBUNAL_SCOPES(type, suffix, as)                                                                      \
    TRIBUNAL_CAS(, type, cas_gen_##suffix, as)                                                                 \
    TRIBUNAL_CAS(_block, type, cta_cas_gen_##suffix, as)                                                       \
    TRIBUNAL_CAS(_system, type, cas_gen_##suffix, as)
TRIBUNAL_SCOPES(int, i, int)
TRIBUNAL_SCOPES(unsigned int, i, int)
TRIBUNAL_SCOPES(long long, ll, long long)
TRIBUNAL_SCOPES(unsigned long long, ll, long long)
#undef TRIBUNAL_SCOPES
#undef TRIBUNAL_CAS
#define TRIBUNAL_CAS(scope, hint)                                                                              \
    TRIBUNAL_DEVICE unsigned short atomicCAS##scope(unsigned short *p, unsigned short compare, unsigned short value) { \
        unsigned short old;                                                                                    \
        __asm__ volatile("atom" hint ".cas.b16 %0, [%1], %2, %3;"                                              \
                         : "=h"(old)                                                                           \
                         : "l"(p), "h"(compare), "h"(value)                                                    \
                         : "memory");                                                                          \
        return old;                                                                                            \
    }
TRIBUNAL_CAS(, "")
TRIBUNAL_CAS(_block, ".cta")
TRIBUNAL_CAS(_system, "")
#undef TRIBUNAL_CAS
