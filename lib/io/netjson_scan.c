/* netjson_scan.c - owns the way from a document to its frame: texts of weights are checked,
 * measured and left where they are; all else is kept.
 *
 * Whether the rest is JSON is found out later (netjson_layers.c): here only texts are told from what
 * is between them, and which of them is called "weights". */
#include "lib/io/netjson_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    BUFFER = 1 << 15,
    MAX_FRAME = 32 << 20 /* bytes: a hundred thousand layers */
};

typedef struct frame_scanner {
    zt_netjson *net;
    const char *frame;      /* the text is a frame, in memory; else the file's */
    uint64_t position, end; /* next byte to fetch */
    size_t next, buffered;
    zt_str *out; /* NULL: what is read is kept already */
    char buffer[BUFFER];
} frame_scanner;

static uint64_t read_position(const frame_scanner *scanner) { return scanner->position - (scanner->buffered - scanner->next); }

static zt_status fail_at(const frame_scanner *scanner, const char *what)
{
    return zt_fail(scanner->net->base.ctx, ZT_EDATA, "%s: byte %" PRIu64 ": %s", scanner->net->base.name, read_position(scanner),
                   what);
}

/* The next byte without passing it; -1 at the end, and on a failure that the context has. */
static int peek_byte(frame_scanner *scanner)
{
    if (scanner->next < scanner->buffered) return (unsigned char)scanner->buffer[scanner->next];
    uint64_t left = scanner->end - scanner->position;
    size_t size = left < BUFFER ? (size_t)left : BUFFER;
    if (size == 0) return -1;
    if (scanner->frame)
        memcpy(scanner->buffer, scanner->frame + scanner->position, size);
    else if (zt_source_read(scanner->net->base.source, scanner->position, scanner->buffer, size) != ZT_OK)
        return -1;
    scanner->position += size;
    scanner->next = 0;
    scanner->buffered = size;
    return (unsigned char)scanner->buffer[0];
}

/* Passes the byte that peek gave, into the frame. */
static zt_status keep_byte(frame_scanner *scanner)
{
    char byte = scanner->buffer[scanner->next++];
    if (!scanner->out) return ZT_OK;
    return scanner->out->len < MAX_FRAME ? zt_str_putc(scanner->out, byte)
                                         : fail_at(scanner, "the text besides the weights is too large");
}

static zt_status keep_space(frame_scanner *scanner)
{
    zt_status status = ZT_OK;
    for (int byte; status == ZT_OK && (byte = peek_byte(scanner), byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t');)
        status = keep_byte(scanner);
    return status;
}

/* ---- weights --------------------------------------------------------------------------------- */

static int digit_value(int character)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = character > 0 ? strchr(digits, character) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* The base64 up to the quote; *bytes that it makes. It must be what encoding them would give. */
static zt_status pass_base64(frame_scanner *scanner, uint64_t *bytes)
{
    uint64_t length = 0, padding = 0;
    int last = 0, byte;
    for (; (byte = peek_byte(scanner)) != '"'; length++, scanner->next++) {
        int value = byte == '=' ? 0 : digit_value(byte);
        if (value < 0 || (padding && byte != '=')) return fail_at(scanner, "\"weights\" is not valid base64");
        padding += byte == '=';
        last = padding ? last : value;
    }
    if (length % 4 != 0 || padding > 2 || (padding && (last & ((1 << 2 * padding) - 1))))
        return fail_at(scanner, "\"weights\" is not canonical base64");
    *bytes = length / 4 * 3 - padding;
    return ZT_OK;
}

/* A frame's own words for weights: #NUMBER:BYTES. */
static zt_status pass_number(frame_scanner *scanner, uint64_t *bytes)
{
    char text[48], wanted[48];
    size_t length = 0;
    int64_t value = -1;
    while (length + 1 < sizeof text && peek_byte(scanner) >= 0 && peek_byte(scanner) != '"')
        text[length++] = scanner->buffer[scanner->next++];
    text[length] = 0;
    const char *colon = strchr(text, ':');
    if (colon && zt_parse_i64(colon + 1, &value))
        snprintf(wanted, sizeof wanted, "#%" PRId64 ":%" PRId64, scanner->net->weights_count, value);
    *bytes = (uint64_t)value;
    return value >= 0 && strcmp(text, wanted) == 0 ? ZT_OK
                                                   : fail_at(scanner, "not a network structure: invalid weights placeholder");
}

/* From the quote that begins a text of weights to that which ends it. */
static zt_status pass_weights(frame_scanner *scanner)
{
    zt_netjson *net = scanner->net;
    nj_weights *list = zt_nj_room(net->base.ctx, net->weights, net->weights_count, sizeof *list);
    if (!list) return ZT_ENOMEM;
    net->weights = list;
    nj_weights *weights = &list[net->weights_count];
    zt_status status = keep_byte(scanner);
    weights->text = read_position(scanner);
    const bool elsewhere = scanner->frame || net->data_name;
    if (status == ZT_OK) status = elsewhere ? pass_number(scanner, &weights->bytes) : pass_base64(scanner, &weights->bytes);
    weights->frame = scanner->out ? scanner->out->len : (size_t)weights->text;
    if (status == ZT_OK && scanner->out)
        status = zt_str_printf(scanner->out, "#%" PRId64 ":%" PRIu64, net->weights_count, weights->bytes);
    weights->frame_end = scanner->out ? scanner->out->len : (size_t)read_position(scanner);
    net->weights_count++;
    if (status == ZT_OK && peek_byte(scanner) != '"') return fail_at(scanner, "truncated");
    return status == ZT_OK ? keep_byte(scanner) : status;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* From a quote to the one that ends its text; *is: it says weights, as plainly as that. */
static zt_status keep_text(frame_scanner *scanner, bool *is_weights)
{
    static const char word[] = "weights";
    size_t length = 0;
    zt_status status = keep_byte(scanner);
    *is_weights = true;
    for (int byte; status == ZT_OK; length++) {
        byte = peek_byte(scanner);
        if (byte < 0) return fail_at(scanner, "truncated");
        if (byte == '"') break;
        *is_weights = *is_weights && length < sizeof word - 1 && byte == word[length];
        status = keep_byte(scanner);
        if (status == ZT_OK && byte == '\\' && peek_byte(scanner) >= 0) status = keep_byte(scanner);
    }
    *is_weights = *is_weights && length == sizeof word - 1;
    return status == ZT_OK ? keep_byte(scanner) : status;
}

/* A text, and if it is the name "weights" of a text, that. */
static zt_status pass_text(frame_scanner *scanner)
{
    bool is_weights;
    zt_status status = keep_text(scanner, &is_weights);
    if (status == ZT_OK && is_weights) status = keep_space(scanner);
    if (status != ZT_OK || !is_weights || peek_byte(scanner) != ':') return status;
    status = keep_byte(scanner);
    if (status == ZT_OK) status = keep_space(scanner);
    return status == ZT_OK && peek_byte(scanner) == '"' ? pass_weights(scanner) : status;
}

static zt_status scan_texts(frame_scanner *scanner)
{
    zt_status status = ZT_OK;
    for (int byte; status == ZT_OK && (byte = peek_byte(scanner)) >= 0;)
        status = byte == '"' ? pass_text(scanner) : keep_byte(scanner);
    return status == ZT_OK ? zt_ctx_status(scanner->net->base.ctx) : status;
}

static zt_status scan_document(zt_netjson *net, const char *frame, uint64_t begin, uint64_t end, zt_str *out)
{
    frame_scanner *scanner = zt_alloc(net->base.ctx, sizeof *scanner);
    if (!scanner) return ZT_ENOMEM;
    scanner->net = net;
    scanner->frame = frame;
    scanner->position = begin;
    scanner->end = end;
    scanner->next = scanner->buffered = 0;
    scanner->out = out;
    zt_status status = scan_texts(scanner);
    zt_free(net->base.ctx, scanner);
    return status;
}

/* "{"zt.data":"NAME"," at the beginning, with white space: *behind is where the rest begins; 0: there is none. */
static zt_status read_data_name(zt_netjson *net, size_t *behind)
{
    enum { HEAD = 512 };
    static const char member[] = "\"" ZT_NETJSON_DATA "\"";
    static const char *const space = " \n\r\t";
    char head[HEAD + 1], shown[160];
    uint64_t size = zt_source_size(net->base.source);
    size_t length = size < HEAD ? (size_t)size : HEAD;
    zt_status status = zt_source_read(net->base.source, 0, head, length);
    if (status != ZT_OK) return status;
    head[length] = 0;
    *behind = 0;
    const char *text = head + strspn(head, space);
    if (*text != '{') return ZT_OK;
    text += 1 + strspn(text + 1, space);
    if (strncmp(text, member, sizeof member - 1) != 0) return ZT_OK;
    text += sizeof member - 1 + strspn(text + sizeof member - 1, space);
    if (*text != ':') return ZT_OK;
    text += 1 + strspn(text + 1, space);
    size_t name = *text == '"' ? strcspn(text + 1, "\"\\/") : 0;
    for (size_t i = 0; i < name; i++)
        if ((unsigned char)text[1 + i] < ' ') name = i; /* which JSON does not have in a text */
    const char *end = name && text[1 + name] == '"' ? text + 2 + name + strspn(text + 2 + name, space) : "";
    if (*end != ',' || text[1] == '.')
        return zt_fail(net->base.ctx, ZT_EDATA, "%s: the member '" ZT_NETJSON_DATA "' is not the name of a file beside it: %s",
                       net->base.name, zt_escape(shown, sizeof shown, text, strcspn(text, ",\n")));
    net->data_name = zt_strndup(net->base.ctx, text + 1, name);
    *behind = (size_t)(end + 1 - head);
    return net->data_name ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_nj_scan(zt_netjson *net)
{
    size_t behind = 0;
    zt_status status = read_data_name(net, &behind);
    if (status == ZT_OK && behind) status = zt_str_putc(&net->frame, '{');
    return status == ZT_OK ? scan_document(net, NULL, behind, zt_source_size(net->base.source), &net->frame) : status;
}

zt_status zt_nj_scan_frame(zt_netjson *net) { return scan_document(net, net->frame.data, 0, net->frame.len, NULL); }
