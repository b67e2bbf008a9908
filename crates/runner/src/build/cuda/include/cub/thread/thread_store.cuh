// Writes of a value of any type that say how it is cached.
#pragma once
#include "thread_load.cuh"

namespace cub {

enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };

template <CacheStoreModifier Modifier, class T> TRIBUNAL_DEVICE void tribunal_store(T *to, const T &value) {
    static_assert(__is_trivially_copyable(T), "only what is trivially copyable can be written in words");
    typedef std::conditional_t<Modifier == STORE_VOLATILE, tribunal_word<(alignof(T) > 8 ? 8 : alignof(T))>, tribunal_word<alignof(T)>> Word;
    Word words[sizeof(T) / sizeof(Word)], *target = reinterpret_cast<Word *>(to);
    __builtin_memcpy(words, &value, sizeof(T));
#pragma unroll
    for (unsigned int word = 0; word < sizeof(T) / sizeof(Word); word++) {
        if constexpr (Modifier == STORE_VOLATILE) *static_cast<volatile Word *>(target + word) = words[word];
        if constexpr (Modifier == STORE_WB) __stwb(target + word, words[word]);
        if constexpr (Modifier == STORE_CG) __stcg(target + word, words[word]);
        if constexpr (Modifier == STORE_CS) __stcs(target + word, words[word]);
        if constexpr (Modifier == STORE_WT) __stwt(target + word, words[word]);
    }
}
template <CacheStoreModifier Modifier, class To, class T> TRIBUNAL_DEVICE void ThreadStore(To to, T value) {
    if constexpr (Modifier == STORE_DEFAULT) {
        *to = value;
    } else {
        static_assert(std::is_pointer<To>::value, "a modifier needs a pointer");
        tribunal_store<Modifier, std::remove_volatile_t<std::remove_pointer_t<To>>>(to, value);
    }
}

}
