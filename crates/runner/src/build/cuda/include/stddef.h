// Sizes; the types are in the prelude.
#pragma once
#define offsetof(type, member) __builtin_offsetof(type, member)
struct alignas(16) max_align_t {
    long long whole;
    double real;
};
