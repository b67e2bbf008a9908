// Reads of a value of any type that say how it is cached.
#pragma once
#include "../../type_traits"

namespace cub {

enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };

// The largest words that a type of such an alignment is made of.
template <size_t Alignment>
using tribunal_word = std::conditional_t<
    Alignment % 16 == 0, uint4,
    std::conditional_t<Alignment % 8 == 0, unsigned long long,
                       std::conditional_t<Alignment % 4 == 0, unsigned int,
                                          std::conditional_t<Alignment % 2 == 0, unsigned short, unsigned char>>>>;

template <CacheLoadModifier Modifier, class T> TRIBUNAL_DEVICE T tribunal_load(const T *from) {
    static_assert(__is_trivially_copyable(T), "only what is trivially copyable can be read in words");
    typedef std::conditional_t<Modifier == LOAD_VOLATILE, tribunal_word<(alignof(T) > 8 ? 8 : alignof(T))>, tribunal_word<alignof(T)>> Word;
    Word words[sizeof(T) / sizeof(Word)];
    const Word *source = reinterpret_cast<const Word *>(from);
#pragma unroll
    for (unsigned int word = 0; word < sizeof(T) / sizeof(Word); word++) {
        if constexpr (Modifier == LOAD_VOLATILE) words[word] = *static_cast<const volatile Word *>(source + word);
        if constexpr (Modifier == LOAD_CA) words[word] = __ldca(source + word);
        if constexpr (Modifier == LOAD_CG) words[word] = __ldcg(source + word);
        if constexpr (Modifier == LOAD_CS) words[word] = __ldcs(source + word);
        if constexpr (Modifier == LOAD_CV) words[word] = __ldcv(source + word);
        if constexpr (Modifier == LOAD_LDG) words[word] = __ldg(source + word);
    }
    T value;
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
}
template <CacheLoadModifier Modifier, class From> TRIBUNAL_DEVICE auto ThreadLoad(From from) {
    if constexpr (Modifier == LOAD_DEFAULT) {
        return *from;
    } else {
        static_assert(std::is_pointer<From>::value, "a modifier needs a pointer");
        return tribunal_load<Modifier>(const_cast<const std::remove_cv_t<std::remove_pointer_t<From>> *>(from));
    }
}

}
