/* foreign.c - owns the one table of what is not a model, by its first bytes. */
#include "lib/base/foreign.h"
#include "lib/base/require.h"

#include <string.h>

/* Formats' own specifications, as facts. */
static const struct {
    const char *bytes;
    uint16_t n, at;
    const char *what;
} magic_rows[] = {
#define ROW(at, bytes, what)                                                                                                     \
    {                                                                                                                            \
        bytes, sizeof bytes - 1, at, what                                                                                        \
    }
    ROW(0, "version https://git-lfs.github.com/spec/",
        "a Git LFS pointer, not the file itself: fetch the file with 'git lfs pull'"),
    ROW(0, "version https://hawser.github.com/spec/",
        "a Git LFS pointer, not the file itself: fetch the file with 'git lfs pull'"),
    ROW(0, "\x1f\x8b\x08", "compressed with gzip: decompress it first (gzip -d)"),
    ROW(0,
        "\xfd"
        "7zXZ\0",
        "compressed with xz: decompress it first (xz -d)"),
    ROW(0, "\x28\xb5\x2f\xfd", "compressed with zstd: decompress it first (zstd -d)"),
    ROW(0, "BZh", "compressed with bzip2: decompress it first (bzip2 -d)"),
    ROW(0, "\x04\x22\x4d\x18", "compressed with lz4: decompress it first (lz4 -d)"),
    ROW(0, "LZIP", "compressed with lzip: decompress it first (lzip -d)"),
    ROW(0, "7z\xbc\xaf\x27\x1c", "a 7z archive: extract it and name the model in it (7z x)"),
    ROW(0, "Rar!\x1a\x07", "a RAR archive: extract it and name the model in it (unrar x)"),
    ROW(257, "ustar", "a tar archive: extract it and name the model in it (tar -xf)"),
    ROW(0, "\x89HDF\r\n\x1a\n", "an HDF5 file, which is not supported: save it as safetensors or npz"),
    ROW(4, "TFL3", "a TensorFlow Lite model, which is not supported"),
    ROW(0, "%PDF-", "a PDF document, not a model"),
    ROW(0, "tjgg", "a ggml file from before GGUF, which is not supported: convert it to GGUF"),
    ROW(0, "lmgg", "a ggml file from before GGUF, which is not supported: convert it to GGUF"),
    ROW(0, "fmgg", "a ggml file from before GGUF, which is not supported: convert it to GGUF"),
#undef ROW
};

static const char html_page[] = "an HTML page, not the file itself: download the file again from its raw file address";
static const char xml_document[] = "an XML document, probably a server's error message: download the file again";
static const char server_answer[] = "a server's error message, not the file itself: download the file again";

/* What a page or an answer begins with, of any case, behind white space. */
static const struct {
    const char *word, *what;
} markup[] = {{"<!doctype html", html_page},
              {"<html", html_page},
              {"<head", html_page},
              {"<!--", html_page},
              {"<body", html_page},
              {"<?xml", xml_document},
              {"entry not found", server_answer},
              {"repository not found", server_answer},
              {"invalid username or password", server_answer},
              {"access to model ", server_answer},
              {"access denied", server_answer}};

static bool begins_with(const char *text, size_t length, const char *word)
{
    for (size_t i = 0; word[i]; i++) {
        if (i == length) return false;
        char character = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
        if (character != word[i]) return false;
    }
    return true;
}

static const char *markup_of(const char *text, size_t length)
{
    static const char mark[] = "\xef\xbb\xbf";
    if (length >= 3 && memcmp(text, mark, 3) == 0) text += 3, length -= 3;
    while (length && strchr(" \t\r\n", *text) && *text) text++, length--;
    for (size_t i = 0; i < sizeof markup / sizeof *markup; i++)
        if (begins_with(text, length, markup[i].word)) return markup[i].what;
    return NULL;
}

static const char *magic_of(const char *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof magic_rows / sizeof *magic_rows; i++)
        if (size >= (size_t)magic_rows[i].at + magic_rows[i].n &&
            memcmp(bytes + magic_rows[i].at, magic_rows[i].bytes, magic_rows[i].n) == 0)
            return magic_rows[i].what;
    return NULL;
}

const char *zt_foreign(const void *head, size_t size)
{
    if (!head) return NULL;
    const char *what = magic_of(head, size);
    return what ? what : markup_of(head, size);
}

zt_status zt_foreign_fail(zt_ctx *ctx, const char *name, const void *head, size_t size)
{
    ZT_REQUIRE(ctx, head || !size, ZT_EUSAGE);
    const char *what = zt_foreign(head, size);
    return what ? zt_fail(ctx, ZT_EDATA, "%s: %s", name, what) : ZT_OK;
}

zt_status zt_foreign_text_fail(zt_ctx *ctx, const char *name, const void *head, size_t size)
{
    ZT_REQUIRE(ctx, head || !size, ZT_EUSAGE);
    const char *what = magic_of(head, size);
    return what ? zt_fail(ctx, ZT_EDATA, "%s: %s", name, what) : ZT_OK;
}
