/* KV cache: A cache of keys and values for autoregressive decoding: ragged batches, several layers, grouped queries, and attention that gives the same answer however the tokens came in. */
#include "tribunal.h"

#include <stdio.h>
#include <stdlib.h>

int32_t tribunal_create(tribunal_create_args *args) {
    snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "create is not implemented");
    return 1;
}

int32_t tribunal_append(tribunal_append_args *args) {
    snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "append is not implemented");
    return 1;
}

int32_t tribunal_attend(tribunal_attend_args *args) {
    snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "attend is not implemented");
    return 1;
}

int32_t tribunal_lengths(tribunal_lengths_args *args) {
    snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "lengths is not implemented");
    return 1;
}

int32_t tribunal_clear(tribunal_clear_args *args) {
    snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "clear is not implemented");
    return 1;
}

int32_t tribunal_fork(tribunal_fork_args *args) {
    snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "fork is not implemented");
    return 1;
}

int32_t tribunal_nbytes(tribunal_nbytes_args *args) {
    snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "nbytes is not implemented");
    return 1;
}

void tribunal_release(void *state) {
    free(state);
}
