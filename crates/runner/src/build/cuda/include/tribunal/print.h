// printf and assert: the two functions that the runtime gives.
#pragma once

extern "C" {
// The compiler makes a call of vprintf of it.
__attribute__((device)) int printf(const char *format, ...);
__attribute__((device, noreturn)) void __assertfail(
    const char *message, const char *file, unsigned int line, const char *function, size_t character_bytes);
}
