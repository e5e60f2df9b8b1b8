/* result.h - for fuzz targets whose format has a reference library: what became of a file, for tests/fuzz/differential.py. */
#ifndef ZT_FUZZ_RESULT_H
#define ZT_FUZZ_RESULT_H

#include <stddef.h>

/* The driver's (main.c -o); there is none with libFuzzer. message: why these bytes were refused; "": they were read. */
__attribute__((weak)) void fuzz_result(const void *bytes, size_t size, const char *message);

__attribute__((unused)) static void note_result(const void *bytes, size_t size, const char *message)
{
    if (fuzz_result) fuzz_result(bytes, size, message);
}

#endif
