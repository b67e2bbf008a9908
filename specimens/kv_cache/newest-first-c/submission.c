/* A sequence is a list of tokens, newest first. Cells are counted by who points to them, so a fork is one pointer. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cell {
    struct cell *before;
    int64_t users;
    float kv[]; /* key and value of head 0, of head 1 and so on */
} cell_t;

typedef struct {
    int64_t layers, batch, heads, kv_heads, dim, max_len, cells;
    int64_t *lengths;
    cell_t **newest;
} cache_t;

static int refuse(char *message, const char *why) {
    snprintf(message, TRIBUNAL_MESSAGE_BYTES, "%s", why);
    return 1;
}

static size_t cell_bytes(const cache_t *c) { return sizeof(cell_t) + (size_t)(2 * c->kv_heads * c->dim) * sizeof(float); }

static void drop(cache_t *c, cell_t *cell) {
    while (cell && --cell->users == 0) {
        cell_t *before = cell->before;
        free(cell);
        c->cells--;
        cell = before;
    }
}

int32_t tribunal_create(tribunal_create_args *args) {
    if (args->bits != 32 || args->block_size != 0) return refuse(args->message, "only float32 without pages");
    if (args->kv_heads < 1 || args->heads % args->kv_heads) return refuse(args->message, "heads are no multiple of kv_heads");
    cache_t *c = calloc(1, sizeof *c);
    if (!c) return refuse(args->message, "no memory");
    c->layers = args->layers, c->batch = args->batch, c->heads = args->heads, c->kv_heads = args->kv_heads;
    c->dim = args->head_dim, c->max_len = args->max_len;
    c->lengths = calloc((size_t)(c->layers * c->batch), sizeof *c->lengths);
    c->newest = calloc((size_t)(c->layers * c->batch), sizeof *c->newest);
    args->cache = c;
    if (!c->lengths || !c->newest) {
        free(c->lengths), free(c->newest), free(c);
        return refuse(args->message, "no memory");
    }
    return 0;
}

int32_t tribunal_append(tribunal_append_args *args) {
    cache_t *c = args->cache;
    const int64_t *counts = args->lengths->data, t = args->k->shape[2], dim = c->dim;
    int64_t *lengths = c->lengths + args->layer * c->batch;
    cell_t **newest = c->newest + args->layer * c->batch;
    for (int64_t b = 0; b < c->batch; b++)
        if (lengths[b] + counts[b] > c->max_len) return refuse(args->message, "a sequence would be longer than max_len");
    const float *k = args->k->data, *v = args->v->data;
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t i = 0; i < counts[b]; i++) {
            cell_t *cell = malloc(cell_bytes(c));
            if (!cell) abort();
            cell->before = newest[b], cell->users = 1;
            for (int64_t h = 0; h < c->kv_heads; h++) {
                int64_t from = ((b * c->kv_heads + h) * t + i) * dim;
                memcpy(cell->kv + 2 * h * dim, k + from, (size_t)dim * sizeof *k);
                memcpy(cell->kv + (2 * h + 1) * dim, v + from, (size_t)dim * sizeof *v);
            }
            newest[b] = cell;
            lengths[b]++, c->cells++;
        }
    return 0;
}

/* One pass with a running maximum and sum. */
static void attend(const cache_t *c, const cell_t *cell, int64_t head, const float *q, float *out) {
    float most = -INFINITY, total = 0;
    memset(out, 0, (size_t)c->dim * sizeof *out);
    for (; cell; cell = cell->before) {
        const float *k = cell->kv + 2 * head * c->dim, *v = k + c->dim;
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
    for (int64_t i = 0; i < c->dim && total > 0; i++) out[i] /= total;
}

int32_t tribunal_attend(tribunal_attend_args *args) {
    cache_t *c = args->cache;
    const int64_t *counts = args->lengths->data, t = args->q->shape[2], group = c->heads / c->kv_heads;
    const float *q = args->q->data;
    float *out = args->out->data;
    memset(out, 0, (size_t)(c->batch * c->heads * t * c->dim) * sizeof *out);
    for (int64_t b = 0; b < c->batch; b++) {
        const cell_t *cell = c->newest[args->layer * c->batch + b];
        for (int64_t i = counts[b] - 1; i >= 0; i--, cell = cell->before)
            for (int64_t h = 0; h < c->heads; h++) {
                int64_t at = ((b * c->heads + h) * t + i) * c->dim;
                attend(c, cell, h / group, q + at, out + at);
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
    for (int64_t at = args->sequence; at < c->layers * c->batch; at += c->batch) {
        drop(c, c->newest[at]);
        c->newest[at] = NULL, c->lengths[at] = 0;
    }
    return 0;
}

int32_t tribunal_fork(tribunal_fork_args *args) {
    cache_t *c = args->cache;
    for (int64_t layer = 0; layer < c->layers; layer++) {
        int64_t source = layer * c->batch + args->source, target = layer * c->batch + args->target;
        c->newest[target] = c->newest[source], c->lengths[target] = c->lengths[source];
        if (c->newest[target]) c->newest[target]->users++;
    }
    return 0;
}

int32_t tribunal_nbytes(tribunal_nbytes_args *args) {
    cache_t *c = args->cache;
    *(int64_t *)args->bytes->data = c->cells * (int64_t)cell_bytes(c);
    return 0;
}

void tribunal_release(void *state) {
    cache_t *c = state;
    for (int64_t at = 0; at < c->layers * c->batch; at++) drop(c, c->newest[at]);
    free(c->lengths);
    free(c->newest);
    free(c);
}
