/* mutate_gguf.h - changes of a GGUF file by its fields: counts, lengths, types, dimensions and offsets; and whole keys and tensors, which
 * are doubled or removed with their count. Format: docs/gguf.md of ggml, as facts. */
#ifndef ZT_FUZZ_MUTATE_GGUF_H
#define ZT_FUZZ_MUTATE_GGUF_H

#include "tests/fuzz/mutate.h"

enum { GGUF_TENSORS = 8, GGUF_KEYS = 16, GGUF_MOST = 400 }; /* where the counts are; fields and parts that are looked at */

typedef enum gguf_field_kind { GGUF_NUMBER, GGUF_VALUE_TYPE, GGUF_TENSOR_TYPE, GGUF_RANK, GGUF_OFFSET } gguf_field_kind;

typedef struct gguf_field {
    size_t at, width;
    gguf_field_kind kind;
} gguf_field;

typedef struct gguf_part {
    size_t begin, end, count_at;
} gguf_part;

typedef struct gguf_layout {
    const mutant *m;
    size_t at; /* behind what was walked */
    bool whole;
    gguf_field fields[GGUF_MOST];
    gguf_part parts[GGUF_MOST];
    size_t field_count, part_count;
} gguf_layout;

/* Notes a number and passes it; 0 behind the end, where `whole` turns false. */
static uint64_t gguf_take(gguf_layout *layout, size_t width, gguf_field_kind kind)
{
    if (!layout->whole || layout->m->size - layout->at < width) {
        layout->whole = false;
        return 0;
    }
    if (layout->field_count < GGUF_MOST) layout->fields[layout->field_count++] = (gguf_field){layout->at, width, kind};
    layout->at += width;
    return get_number(layout->m, layout->at - width, width);
}

static void gguf_pass(gguf_layout *layout, uint64_t bytes)
{
    if (!layout->whole || bytes > layout->m->size - layout->at)
        layout->whole = false;
    else
        layout->at += (size_t)bytes;
}

static void gguf_value(gguf_layout *layout, uint64_t type)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == 8) {
        gguf_pass(layout, gguf_take(layout, 8, GGUF_NUMBER));
    } else if (type < sizeof bytes && bytes[type]) {
        gguf_take(layout, bytes[type], GGUF_NUMBER);
    } else {
        layout->whole = false;
    }
}

static void gguf_key(gguf_layout *layout)
{
    gguf_value(layout, 8);
    uint64_t type = gguf_take(layout, 4, GGUF_VALUE_TYPE), count = 1;
    if (type == 9) {
        type = gguf_take(layout, 4, GGUF_VALUE_TYPE);
        count = gguf_take(layout, 8, GGUF_NUMBER);
    }
    for (uint64_t i = 0; i < count && layout->whole; i++) gguf_value(layout, type);
}

static void gguf_tensor(gguf_layout *layout)
{
    gguf_value(layout, 8);
    uint64_t rank = gguf_take(layout, 4, GGUF_RANK);
    for (uint64_t i = 0; i < rank && layout->whole; i++) gguf_take(layout, 8, GGUF_NUMBER);
    gguf_take(layout, 4, GGUF_TENSOR_TYPE);
    gguf_take(layout, 8, GGUF_OFFSET);
}

static void gguf_parts(gguf_layout *layout, uint64_t count, size_t count_at, void (*walk)(gguf_layout *layout))
{
    for (uint64_t i = 0; i < count && layout->whole; i++) {
        size_t begin = layout->at;
        walk(layout);
        if (layout->whole && layout->part_count < GGUF_MOST)
            layout->parts[layout->part_count++] = (gguf_part){begin, layout->at, count_at};
    }
}

static void gguf_walk_layout(gguf_layout *layout, const mutant *m)
{
    *layout = (gguf_layout){.m = m, .at = 4, .whole = m->size >= 24};
    gguf_take(layout, 4, GGUF_NUMBER);
    uint64_t tensors = gguf_take(layout, 8, GGUF_NUMBER), keys = gguf_take(layout, 8, GGUF_NUMBER);
    gguf_parts(layout, keys, GGUF_KEYS, gguf_key);
    gguf_parts(layout, tensors, GGUF_TENSORS, gguf_tensor);
}

static void gguf_change_field(mutant *m, const gguf_field *field)
{
    uint64_t value = draw_number(m, get_number(m, field->at, field->width));
    switch (draw(m, 8) ? field->kind : GGUF_NUMBER) {
    case GGUF_VALUE_TYPE: value = draw(m, 14); break;
    case GGUF_TENSOR_TYPE: value = draw(m, 42); break;
    case GGUF_RANK: value = draw(m, 6); break;
    case GGUF_OFFSET: value = 32 * draw(m, 64); break;
    case GGUF_NUMBER: break;
    }
    memcpy(m->bytes + field->at, &value, field->width);
}

/* false: there is nothing that can be changed. */
static bool mutate_gguf(mutant *m)
{
    static gguf_layout layout;
    gguf_walk_layout(&layout, m);
    if (layout.part_count && draw(m, 4) == 0) {
        const gguf_part part = layout.parts[draw(m, layout.part_count)];
        uint64_t count = get_number(m, part.count_at, 8);
        bool more = draw(m, 2), done = more ? double_part(m, part.begin, part.end - part.begin)
                                            : replace(m, part.begin, part.end - part.begin, NULL, 0);
        count += more ? 1 : -UINT64_C(1);
        if (done) memcpy(m->bytes + part.count_at, &count, 8);
        return done;
    }
    if (layout.field_count == 0) return false;
    gguf_change_field(m, &layout.fields[draw(m, layout.field_count)]);
    return true;
}

#endif
