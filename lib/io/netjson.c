/* netjson.c - owns open network documents: opening and closing, tensors by name, their bytes. */
#include "lib/base/require.h"
#include "lib/io/base64.h"
#include "lib/io/netjson_file.h"

#include <string.h>

enum { PIECE = 1 << 14 }; /* characters of base64 that are decoded together */

void *zt_nj_room(zt_ctx *ctx, void *list, int64_t count, size_t size)
{
    return count & (count - 1) ? list : zt_realloc(ctx, list, (size_t)(count ? 2 * count : 1) * size);
}

bool zt_netjson_sniff(const void *bytes, size_t size)
{
    if (!bytes) return false;
    const char *text = bytes;
    size_t i = 0;
    while (i < size && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t')) i++;
    return i < size && text[i] == '{';
}

static zt_status map_names(zt_netjson *net)
{
    zt_status status = ZT_OK;
    net->base.names = zt_map_new(net->base.ctx, (size_t)net->base.count);
    if (!net->base.names) return ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < net->base.count; i++)
        status = zt_map_put(net->base.names, net->tensors[i].name, strlen(net->tensors[i].name), i);
    return status;
}

const char *zt_netjson_frame(const zt_netjson *net, size_t *size)
{
    if (!net) return NULL;
    ZT_REQUIRE(net->base.ctx, size, NULL);
    *size = net->frame.len;
    return net->frame.data;
}

/* Up to PIECE characters of the text, from the group of byte `offset` on; *wanted bytes came of it. */
static zt_status read_piece(const zt_netjson *net, const nj_weights *weights, size_t offset, void *dst, size_t *wanted)
{
    char text[PIECE];
    uint64_t start = offset / 3 * 4, total = (weights->bytes + 2) / 3 * 4;
    size_t step = total - start < PIECE ? (size_t)(total - start) : PIECE, got = 0, skip = offset % 3;
    zt_status status = zt_source_read(net->base.source, weights->text + start, text, step);
    if (status != ZT_OK) return status;
    char *bytes = zt_base64_get(net->base.ctx, text, step, &got);
    if (!bytes || got <= skip) { /* it was base64 when it was opened */
        zt_free(net->base.ctx, bytes);
        status = zt_ctx_status(net->base.ctx);
        return status != ZT_OK ? status
                               : zt_fail(net->base.ctx, ZT_EIO, "%s: the file changed while it was read", net->base.name);
    }
    *wanted = got - skip < *wanted ? got - skip : *wanted;
    memcpy(dst, bytes + skip, *wanted);
    zt_free(net->base.ctx, bytes);
    return ZT_OK;
}

static const zt_array *get_array(const zt_array_file *file, int64_t i) { return &((const zt_netjson *)file)->tensors[i]; }

static zt_status read_array(zt_array_file *file, int64_t i, size_t offset, void *dst, size_t size)
{
    const zt_netjson *net = (const zt_netjson *)file;
    char *output = dst;
    if (net->data) return zt_safetensors_read(net->data, (int64_t)net->weights[i].text, offset, dst, size);
    zt_status status = file->source ? ZT_OK : zt_fail(file->ctx, ZT_EUSAGE, "%s has no weights", file->name);
    while (status == ZT_OK && size) {
        size_t step = size;
        status = read_piece(net, &net->weights[i], offset, output, &step);
        output += step;
        offset += step;
        size -= step;
    }
    return status;
}

static void close_net(zt_array_file *file)
{
    zt_netjson *net = (zt_netjson *)file;
    zt_free(file->ctx, net->tensors);
    zt_free(file->ctx, net->weights);
    zt_free(file->ctx, net->data_name);
    zt_safetensors_close(net->data);
    zt_str_fini(&net->frame);
}

static const zt_array_file_ops net_ops = {.get = get_array, .read = read_array, .close = close_net};

static zt_netjson *net_new(zt_ctx *ctx, zt_source *source, bool owns)
{
    zt_netjson *net = zt_array_file_new(ctx, &net_ops, sizeof *net, source, owns);
    if (net) zt_str_init(&net->frame, ctx);
    return net;
}

/* ---- weights in another file ----------------------------------------------------------------- */

static zt_status find_data(zt_netjson *net, int64_t i)
{
    char shown[160];
    const zt_array *tensor = &net->tensors[i];
    int64_t index = zt_safetensors_find(net->data, tensor->name);
    size_t bytes = index >= 0 ? zt_safetensors_get(net->data, index)->bytes : 0;
    zt_escape(shown, sizeof shown, tensor->name, strlen(tensor->name));
    if (index < 0)
        return zt_fail(net->base.ctx, ZT_EDATA, "%s: no tensor '%s', whose place is in %s", zt_safetensors_name(net->data), shown,
                       net->base.name);
    if (bytes != tensor->bytes)
        return zt_fail(net->base.ctx, ZT_EDATA, "%s: tensor '%s' has %zu bytes, but %zu in %s", zt_safetensors_name(net->data),
                       shown, bytes, tensor->bytes, net->base.name);
    net->weights[i].text = (uint64_t)index;
    return ZT_OK;
}

/* Opens the file beside the document that has its weights, if any. */
static zt_status open_data(zt_netjson *net)
{
    const char *slash = strrchr(net->base.name, '/');
    zt_str path;
    if (!net->data_name) return ZT_OK;
    zt_str_init(&path, net->base.ctx);
    zt_status status =
        zt_str_printf(&path, "%.*s%s", slash ? (int)(slash + 1 - net->base.name) : 0, net->base.name, net->data_name);
    net->data = status == ZT_OK ? zt_safetensors_open(net->base.ctx, path.data) : NULL;
    if (status == ZT_OK && !net->data) status = zt_ctx_status(net->base.ctx);
    for (int64_t i = 0; status == ZT_OK && i < net->base.count; i++) status = find_data(net, i);
    zt_str_fini(&path);
    return status;
}

static zt_netjson *open_source(zt_ctx *ctx, zt_source *source, bool owns)
{
    zt_netjson *net = net_new(ctx, source, owns);
    if (net && zt_nj_scan(net) == ZT_OK && zt_nj_read_layers(net) == ZT_OK && map_names(net) == ZT_OK && open_data(net) == ZT_OK)
        return net;
    zt_netjson_close(net);
    return NULL;
}

zt_netjson *zt_netjson_open(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    zt_source *source = zt_source_open(ctx, path);
    return source ? open_source(ctx, source, true) : NULL;
}

zt_netjson *zt_netjson_from(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return open_source(ctx, source, false);
}

zt_netjson *zt_netjson_take(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return open_source(ctx, source, true);
}

zt_netjson *zt_netjson_from_frame(zt_ctx *ctx, const char *frame, size_t size)
{
    ZT_REQUIRE(ctx, frame || !size, NULL);
    zt_netjson *net = net_new(ctx, NULL, false);
    if (!net) return NULL;
    net->base.name = "the network's structure";
    if (zt_str_put(&net->frame, frame, size) == ZT_OK && zt_nj_scan_frame(net) == ZT_OK && zt_nj_read_layers(net) == ZT_OK &&
        map_names(net) == ZT_OK)
        return net;
    zt_netjson_close(net);
    return NULL;
}

void zt_netjson_close(zt_netjson *net) { zt_array_file_close((zt_array_file *)net); }

int64_t zt_netjson_count(const zt_netjson *net) { return net ? net->base.count : 0; }

const zt_array *zt_netjson_get(const zt_netjson *net, int64_t i) { return net ? get_array(&net->base, i) : NULL; }

int64_t zt_netjson_find(const zt_netjson *net, const char *name) { return net ? zt_array_file_find(&net->base, name) : -1; }

zt_status zt_netjson_read(zt_netjson *net, int64_t i, size_t offset, void *dst, size_t size)
{
    return net ? zt_array_file_read(&net->base, i, offset, dst, size) : ZT_EUSAGE;
}

zt_store zt_netjson_store(zt_netjson *net) { return zt_array_file_store(&net->base); }

/* ---- writing --------------------------------------------------------------------------------- */

struct zt_netjson_writer {
    zt_netjson *net; /* of the frame alone */
    zt_sink *out;
    int64_t next;          /* tensors begun */
    size_t frame_position; /* of the frame, written */
    size_t remaining;      /* bytes of the open tensor that are to come */
    uint8_t rest[3];       /* bytes that make no whole group yet */
    size_t rest_size;
};

zt_netjson_writer *zt_netjson_writer_new(zt_ctx *ctx, zt_sink *out, const char *frame, size_t size)
{
    ZT_REQUIRE(ctx, frame, NULL);
    zt_netjson_writer *writer = zt_calloc(ctx, 1, sizeof *writer);
    if (!writer) return NULL;
    writer->net = zt_netjson_from_frame(ctx, frame, size);
    writer->out = out;
    if (writer->net) return writer;
    zt_free(ctx, writer);
    return NULL;
}

void zt_netjson_writer_free(zt_netjson_writer *writer)
{
    if (!writer) return;
    zt_ctx *ctx = writer->net->base.ctx;
    zt_netjson_close(writer->net);
    zt_free(ctx, writer);
}

/* The frame up to `end`. */
static zt_status put_frame(zt_netjson_writer *writer, size_t end)
{
    zt_status status = zt_sink_write(writer->out, writer->net->frame.data + writer->frame_position, end - writer->frame_position);
    writer->frame_position = end;
    return status;
}

static zt_status put_base64(zt_netjson_writer *writer, const void *bytes, size_t size)
{
    zt_str text;
    zt_str_init(&text, writer->net->base.ctx);
    zt_status status = zt_base64_put(&text, bytes, size);
    if (status == ZT_OK) status = zt_sink_write(writer->out, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

zt_status zt_netjson_begin(zt_netjson_writer *writer, const char *name, size_t bytes)
{
    if (!writer) return ZT_EUSAGE;
    char text[160];
    zt_netjson *net = writer->net;
    zt_escape(text, sizeof text, name, strlen(name));
    if (writer->remaining)
        return zt_fail(net->base.ctx, ZT_EUSAGE, "the tensor before '%s' is incomplete: %zu bytes missing", text,
                       writer->remaining);
    if (writer->next >= net->base.count || strcmp(net->tensors[writer->next].name, name) != 0)
        return zt_fail(net->base.ctx, ZT_ENOTSUP, "unexpected tensor '%s': the network's next tensor is '%s'", text,
                       writer->next < net->base.count ? net->tensors[writer->next].name : "nothing");
    if (net->tensors[writer->next].bytes != bytes)
        return zt_fail(net->base.ctx, ZT_ENOTSUP, "tensor '%s' has %zu bytes, but the network's has %zu", text, bytes,
                       net->tensors[writer->next].bytes);
    const nj_weights *weights = &net->weights[writer->next++];
    zt_status status = put_frame(writer, weights->frame);
    writer->frame_position = weights->frame_end;
    writer->remaining = bytes;
    writer->rest_size = 0;
    return status;
}

zt_status zt_netjson_write(zt_netjson_writer *writer, const void *bytes, size_t size)
{
    if (!writer) return ZT_EUSAGE;
    const uint8_t *input = bytes;
    zt_status status = ZT_OK;
    if (size > writer->remaining) return zt_fail(writer->net->base.ctx, ZT_EUSAGE, "more data written than the tensor holds");
    writer->remaining -= size;
    while (status == ZT_OK && size) {
        size_t step = writer->rest_size || size < 3 ? 1 : size - size % 3;
        step = step < 3 * PIECE ? step : 3 * PIECE;
        if (step >= 3) {
            status = put_base64(writer, input, step);
        } else {
            writer->rest[writer->rest_size++] = *input;
            if (writer->rest_size == 3 || (size == 1 && !writer->remaining)) {
                status = put_base64(writer, writer->rest, writer->rest_size);
                writer->rest_size = 0;
            }
        }
        input += step;
        size -= step;
    }
    return status;
}

zt_status zt_netjson_finish(zt_netjson_writer *writer)
{
    if (!writer) return ZT_EUSAGE;
    if (writer->remaining || writer->next < writer->net->base.count)
        return zt_fail(writer->net->base.ctx, ZT_ENOTSUP, "the network has %lld tensors, but %lld were written",
                       (long long)writer->net->base.count, (long long)(writer->next - (writer->remaining > 0)));
    return put_frame(writer, writer->net->frame.len);
}
