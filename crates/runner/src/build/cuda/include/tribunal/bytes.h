// Bytes: moved, set, compared.
#pragma once

TRIBUNAL_DEVICE void *memcpy(void *to, const void *from, size_t n) { return __builtin_memcpy(to, from, n); }
TRIBUNAL_DEVICE void *memmove(void *to, const void *from, size_t n) { return __builtin_memmove(to, from, n); }
TRIBUNAL_DEVICE void *memset(void *to, int value, size_t n) { return __builtin_memset(to, value, n); }
TRIBUNAL_DEVICE int memcmp(const void *x, const void *y, size_t n) {
    const unsigned char *a = (const unsigned char *)x, *b = (const unsigned char *)y;
    for (; n > 0; a++, b++, n--)
        if (*a != *b) return *a - *b;
    return 0;
}
TRIBUNAL_DEVICE size_t strlen(const char *text) {
    size_t n = 0;
    while (text[n]) n++;
    return n;
}
TRIBUNAL_DEVICE int strcmp(const char *x, const char *y) {
    while (*x && *x == *y) x++, y++;
    return (unsigned char)*x - (unsigned char)*y;
}
