/* Keys and values in two arrays, (layer, batch, kv_head, position, element); one pass over the keys of a query with a running
   maximum and sum. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t layers, batch, heads, kv_heads, dim, max_len;
    int64_t *lengths;
    float *k, *v;
} cache_t;

static int refuse(char *message, const char *why) {
    snprintf(message, TRIBUNAL_MESSAGE_BYTES, "%s", why);
    return 1;
}

static float *row(const cache_t *c, float *of, int64_t layer, int64_t b, int64_t head, int64_t position) {
    return of + (((layer * c->batch + b) * c->kv_heads + head) * c->max_len + position) * c->dim;
}

int32_t tribunal_create(tribunal_create_args *args) {
    if (args->bits != 32 || args->block_size != 0) return refuse(args->message, "only float32 without pages");
    if (args->kv_heads < 1 || args->heads % args->kv_heads) return refuse(args->message, "heads are no multiple of kv_heads");
    cache_t *c = calloc(1, sizeof *c);
    if (!c) return refuse(args->message, "no memory");
    c->layers = args->layers, c->batch = args->batch, c->heads = args->heads, c->kv_heads = args->kv_heads;
    c->dim = args->head_dim, c->max_len = args->max_len;
    size_t numbers = (size_t)(c->layers * c->batch * c->kv_heads * c->max_len * c->dim);
    c->lengths = calloc((size_t)(c->layers * c->batch), sizeof *c->lengths);
    c->k = calloc(numbers, sizeof *c->k);
    c->v = calloc(numbers, sizeof *c->v);
    args->cache = c;
    if (!c->lengths || !c->k || !c->v) {
        tribunal_release(c);
        return refuse(args->message, "no memory");
    }
    return 0;
}

int32_t tribunal_append(tribunal_append_args *args) {
    cache_t *c = args->cache;
    const int64_t *counts = args->lengths->data, t = args->k->shape[2];
    int64_t *lengths = c->lengths + args->layer * c->batch;
    for (int64_t b = 0; b < c->batch; b++)
        if (lengths[b] + counts[b] > c->max_len) return refuse(args->message, "a sequence would be longer than max_len");
    const float *k = args->k->data, *v = args->v->data;
    for (int64_t b = 0; b < c->batch; b++) {
        for (int64_t h = 0; h < c->kv_heads; h++) {
            size_t from = (size_t)((b * c->kv_heads + h) * t * c->dim), bytes = (size_t)(counts[b] * c->dim) * sizeof *k;
            memcpy(row(c, c->k, args->layer, b, h, lengths[b]), k + from, bytes);
            memcpy(row(c, c->v, args->layer, b, h, lengths[b]), v + from, bytes);
        }
        lengths[b] += counts[b];
    }
    return 0;
}

static void attend(const cache_t *c, int64_t layer, int64_t b, int64_t head, int64_t keys, const float *q, float *out) {
    float most = -INFINITY, total = 0;
    memset(out, 0, (size_t)c->dim * sizeof *out);
    for (int64_t j = 0; j < keys; j++) {
        const float *k = row(c, c->k, layer, b, head, j), *v = row(c, c->v, layer, b, head, j);
        float score = 0;
        for (int64_t i = 0; i < c->dim; i++) score += q[i] * k[i];
        score /= sqrtf((float)c->dim);
        if (score > most) {
            float factor = expf(most - score);
            total *= factor;
            for (int64_t i = 0; i < c->dim; i++) out[i] *= factor;
            most = score;
        }
        float weight = expf(score - most);
        total += weight;
        for (int64_t i = 0; i < c->dim; i++) out[i] += weight * v[i];
    }
    for (int64_t i = 0; i < c->dim && keys > 0; i++) out[i] /= total;
}

int32_t tribunal_attend(tribunal_attend_args *args) {
    cache_t *c = args->cache;
    const int64_t *counts = args->lengths->data, t = args->q->shape[2], group = c->heads / c->kv_heads;
    const float *q = args->q->data;
    float *out = args->out->data;
    for (int64_t b = 0; b < c->batch; b++) {
        int64_t length = c->lengths[args->layer * c->batch + b];
        for (int64_t h = 0; h < c->heads; h++)
            for (int64_t i = 0; i < t; i++) {
                int64_t at = ((b * c->heads + h) * t + i) * c->dim, keys = i < counts[b] ? length - counts[b] + i + 1 : 0;
                attend(c, args->layer, b, h / group, keys, q + at, out + at);
            }
    }
    return 0;
}

int32_t tribunal_lengths(tribunal_lengths_args *args) {
    cache_t *c = args->cache;
    memcpy(args->lengths->data, c->lengths, (size_t)(c->layers * c->batch) * sizeof *c->lengths);
    return 0;
}

int32_t tribunal_clear(tribunal_clear_args *args) {
    cache_t *c = args->cache;
    for (int64_t layer = 0; layer < c->layers; layer++) c->lengths[layer * c->batch + args->sequence] = 0;
    return 0;
}

int32_t tribunal_nbytes(tribunal_nbytes_args *args) {
    cache_t *c = args->cache;
    *(int64_t *)args->bytes->data = 8 * c->layers * c->batch * c->kv_heads * c->max_len * c->dim;
    return 0;
}

void tribunal_release(void *state) {
    cache_t *c = state;
    free(c->lengths);
    free(c->k);
    free(c->v);
    free(c);
}
