/* memory.c - what the system says of memory. */
#include "tools/common/cli.h"

#include <stdio.h>
#include <string.h>

size_t zt_proc_bytes(const char *path, const char *key)
{
    char line[256];
    unsigned long long kilobytes = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%llu", &kilobytes) == 1) break;
    if (file) fclose(file);
    return (size_t)kilobytes << 10;
}

size_t zt_cli_available_bytes(const zt_cli *cli)
{
    size_t free_bytes = zt_proc_bytes("/proc/meminfo", "MemAvailable:");
    if (cli->mem_limit && (cli->mem_limit < free_bytes || !free_bytes)) return cli->mem_limit;
    return free_bytes;
}
