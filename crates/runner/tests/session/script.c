/* A host that says what a script says: its constructor takes over the connection and never gives it back. A line of the script is an operation
   and its bytes. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JUDGE = 3 };
static char heard[1 << 16];
static size_t heard_bytes;
static int outputs = -1;

/* Waits for a packet of the judge, and keeps the first descriptor: that of the outputs. */
static void hear(void) {
    struct iovec part = {heard, sizeof heard};
    char space[256];
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    ssize_t count = recvmsg(JUDGE, &message, 0);
    if (count <= 0) _exit(0);
    heard_bytes = count;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    if (!rights) return;
    int file = ((int *)CMSG_DATA(rights))[0];
    if (outputs < 0) outputs = file;
    else close(file);
}

/* Writes a byte over all of the outputs, the zones around them as well. */
static void fill(char byte) {
    struct stat status;
    if (outputs < 0 || fstat(outputs, &status)) return;
    void *base = mmap(0, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, outputs, 0);
    if (base == MAP_FAILED) return;
    memset(base, byte, status.st_size);
    munmap(base, status.st_size);
}

/* Says DONE for the GO that was heard last, as changed by a mask and cut or drawn out to a length. */
static void done(const unsigned char *mask, size_t bytes) {
    unsigned char packet[256] = {0};
    memcpy(packet, heard, heard_bytes < 16 ? heard_bytes : 16);
    memcpy(packet, "TDN1", 4);
    for (int i = 0; i < 24; i++) packet[i] ^= mask[i];
    send(JUDGE, packet, bytes, MSG_NOSIGNAL);
}

__attribute__((constructor)) static void follow_script(void) {
    static unsigned char script[1 << 20];
    int file = open("script", O_RDONLY);
    size_t end = 0;
    for (ssize_t count; (count = read(file, script + end, sizeof script - end)) > 0;) end += count;
    for (size_t at = 0; at + 5 <= end;) {
        uint32_t bytes;
        unsigned char operation = script[at], *data = script + at + 5;
        memcpy(&bytes, script + at + 1, 4);
        at += 5 + bytes;
        switch (operation) {
        case 'h': hear(); break;
        case 's': send(JUDGE, data, bytes, MSG_NOSIGNAL); break;
        case 'l': for (;;) if (send(JUDGE, data, bytes, MSG_NOSIGNAL) < 0) _exit(0);
        case 'd': done(data + 1, data[0]); break;
        case 'f': fill(data[0]); break;
        case 'c': close(JUDGE); break;
        case 'x': _exit(data[0]);
        case 'k': kill(getpid(), data[0]); break;
        }
    }
    for (;;) pause();
}
