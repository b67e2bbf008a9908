/* Hands every call to a process outside. Generated. */
#include "tribunal.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    unsigned char *bytes;
    size_t length, room, at;
    int32_t status;
} stand_in_frame;

static char stand_in_busy;

static void stand_in_put(stand_in_frame *f, const void *from, size_t count) {
    if (count == 0) return;
    if (f->length + count > f->room) {
        f->room = 2 * (f->length + count);
        f->bytes = (unsigned char *)realloc(f->bytes, f->room);
        if (!f->bytes) abort();
    }
    memcpy(f->bytes + f->length, from, count);
    f->length += count;
}

static stand_in_frame stand_in_begin(uint32_t operation) {
    stand_in_frame f = {NULL, 0, 0, 0, 0};
    uint32_t length = 0;
    while (__atomic_test_and_set(&stand_in_busy, __ATOMIC_ACQUIRE)) usleep(50);
    stand_in_put(&f, &length, 4);
    stand_in_put(&f, &operation, 4);
    return f;
}

static size_t stand_in_count(const DLTensor *t) {
    size_t count = 1;
    for (int i = 0; i < t->ndim; i++) count *= (size_t)t->shape[i];
    return count;
}

static void stand_in_put_spec(stand_in_frame *f, const DLTensor *t) {
    int integer = t->dtype.code == 0, brain = t->dtype.code == 4;
    unsigned char head[2];
    head[0] = (unsigned char)(integer ? (t->dtype.bits == 32 ? 4 : 5) : brain ? 1 : t->dtype.bits == 16 ? 0 : t->dtype.bits == 32 ? 2 : 3);
    head[1] = (unsigned char)t->ndim;
    stand_in_put(f, head, 2);
    for (int i = 0; i < t->ndim; i++) {
        int64_t extent = t->shape[i];
        stand_in_put(f, &extent, 8);
    }
}

static void stand_in_put_tensor(stand_in_frame *f, const DLTensor *t) {
    stand_in_put_spec(f, t);
    stand_in_put(f, (const char *)t->data + t->byte_offset, stand_in_count(t) * (t->dtype.bits / 8));
}

__attribute__((unused)) static void stand_in_put_real(stand_in_frame *f, double value) { stand_in_put(f, &value, 8); }
__attribute__((unused)) static void stand_in_put_integer(stand_in_frame *f, int64_t value) { stand_in_put(f, &value, 8); }

__attribute__((unused)) static void stand_in_put_state(stand_in_frame *f, const void *state) {
    uint32_t number = (uint32_t)(uintptr_t)state - 1;
    stand_in_put(f, &number, 4);
}

static void stand_in_put_known(stand_in_frame *f) {
    unsigned char known = 1;
    stand_in_put(f, &known, 1);
}

static int stand_in_socket(void) {
    const char *name = getenv("SOCKET_VARIABLE");
    return name ? atoi(name) : -1;
}

static void stand_in_all(unsigned char *bytes, size_t count, int writing) {
    while (count) {
        ssize_t done = writing ? write(stand_in_socket(), bytes, count) : read(stand_in_socket(), bytes, count);
        if (done <= 0) {
            fprintf(stderr, "nobody stands in any more\n");
            abort();
        }
        bytes += done;
        count -= (size_t)done;
    }
}

static void stand_in_go(stand_in_frame *f, char *message) {
    uint32_t length = (uint32_t)(f->length - 4);
    memcpy(f->bytes, &length, 4);
    stand_in_all(f->bytes, f->length, 1);
    stand_in_all((unsigned char *)&length, 4, 0);
    f->bytes = (unsigned char *)realloc(f->bytes, (size_t)length + 1);
    if (!f->bytes) abort();
    stand_in_all(f->bytes, length, 0);
    f->bytes[length] = 0;
    f->status = f->bytes[0];
    f->at = 2;
    if (f->status && message) snprintf(message, TRIBUNAL_MESSAGE_BYTES, "%s", (const char *)f->bytes + 1);
}

static void stand_in_spoil(stand_in_frame *f, int which, const DLTensor *t) {
    size_t size = t->dtype.bits / 8;
    if (!f->status && f->bytes[1] == which && stand_in_count(t)) ((unsigned char *)t->data + t->byte_offset)[size - 1] ^= 1;
}

static void stand_in_take_tensor(stand_in_frame *f, DLTensor *t) {
    size_t bytes = stand_in_count(t) * (t->dtype.bits / 8);
    if (f->status) return;
    f->at += 2 + 8 * (size_t)f->bytes[f->at + 1];
    memcpy((char *)t->data + t->byte_offset, f->bytes + f->at, bytes);
    f->at += bytes;
}

__attribute__((unused)) static void stand_in_take_state(stand_in_frame *f, void **state) {
    uint32_t number;
    if (f->status) return;
    memcpy(&number, f->bytes + f->at, 4);
    f->at += 4;
    *state = (void *)((uintptr_t)number + 1);
}

static int32_t stand_in_end(stand_in_frame *f) {
    free(f->bytes);
    __atomic_clear(&stand_in_busy, __ATOMIC_RELEASE);
    return f->status;
}
