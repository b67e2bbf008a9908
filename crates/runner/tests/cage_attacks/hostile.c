/* A program that attacks whoever runs it. `hostile ATTACK [JUDGE_PID [HOME]]` ends with 0 if the attack was stopped, with 1 if
 * something of it succeeded, which it then names. `hostile deny COMMAND...` runs a command where namespaces are refused. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

int main(int, char **);

static int escapes;
static pid_t judge;
static const char *home = "/root";

static void succeeded(const char *what) {
    printf("escaped: %s\n", what);
    escapes++;
}

/* Counts a call that returned anything but an error. */
#define TRY(call) do { if ((long)(call) != -1) succeeded(#call); } while (0)

static void *sleep_long(void *unused) { sleep(1000); return unused; }
static void *add_one(void *sum) { __atomic_add_fetch((int *)sum, 1, __ATOMIC_SEQ_CST); return NULL; }

static void try_fork(void) {
    for (int i = 0; i < 200; i++) {
        pid_t pid = fork();
        if (pid == 0) { sleep(1000); _exit(0); }
        if (pid > 0) succeeded("fork");
    }
    if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) >= 0) succeeded("clone");
}

static void try_threads(void) {
    pthread_attr_t attr;
    pthread_t thread;
    int count = 0;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    while (count < 1000 && pthread_create(&thread, &attr, sleep_long, NULL) == 0) count++;
    printf("threads %d\n", count);
    if (count == 0) succeeded("nothing: there are no threads");
}

static void try_memory(int flags) {
    size_t total = 0, step = 8 << 20;
    while (total < ((size_t)1 << 30)) {
        char *block = mmap(NULL, step, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED) break;
        memset(block, 1, step);
        total += step;
    }
    printf("touched %zu MiB\n", total >> 20);
    if (total == 0) succeeded("nothing: there is no memory");
    if (total > ((size_t)256 << 20)) succeeded("more memory than allowed");
}

static void try_files(void) {
    char path[4096];
    TRY(open("/etc/passwd", O_RDONLY));
    TRY(open("/etc/shadow", O_RDONLY));
    TRY(open("/proc/self/root/etc/passwd", O_RDONLY));
    if (opendir(home)) succeeded("opendir(home)");
    if (opendir("/var")) succeeded("opendir(/var)");
    snprintf(path, sizeof path, "%s/secret", home);
    TRY(open(path, O_RDONLY));
    TRY(chmod(path, 0777));
    TRY(truncate(path, 0));
    TRY(unlink(path));
    TRY(rename(path, "/tmp/stolen"));
    TRY(link(path, "/tmp/linked"));
    snprintf(path, sizeof path, "%s/new", home);
    TRY(open(path, O_CREAT | O_WRONLY, 0600));
    TRY(open("/dev/shm/tribunal-escape", O_CREAT | O_WRONLY, 0600));
    TRY(open("/var/tmp/tribunal-escape", O_CREAT | O_WRONLY, 0600));
    TRY(open("/usr/lib/tribunal-escape", O_CREAT | O_WRONLY, 0600));
    TRY(mknod("/tmp/device", S_IFBLK | 0600, 0));
    /* May work where /tmp is the cage's own; the test looks whether it came out. */
    if (open("/tmp/tribunal-escape", O_CREAT | O_WRONLY, 0600) >= 0) printf("wrote to /tmp\n");
}

static void try_sockets(void) {
    int pair[2];
    TRY(socket(AF_INET, SOCK_STREAM, 0));
    TRY(socket(AF_INET6, SOCK_STREAM, 0));
    TRY(socket(AF_INET, SOCK_DGRAM, 0));
    TRY(socket(AF_INET, SOCK_RAW, 1));
    TRY(socket(AF_UNIX, SOCK_STREAM, 0));
    TRY(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
    TRY(socket(40 /* AF_VSOCK */, SOCK_STREAM, 0));
    TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
}

static void try_judge(void) {
    char path[64], byte;
    struct iovec here = {&byte, 1}, there = {(void *)main, 1};
    TRY(kill(judge, 0));
    TRY(kill(getppid(), SIGKILL));
    TRY(kill(-1, 0));
    TRY(kill(0, 0));
    TRY(ptrace(PTRACE_ATTACH, judge, 0, 0));
    TRY(ptrace(PTRACE_SEIZE, getppid(), 0, 0));
    TRY(process_vm_readv(judge, &here, 1, &there, 1, 0));
    for (int i = 0; i < 2; i++) {
        pid_t pid = i ? judge : getppid();
        const char *files[] = {"mem", "environ", "maps", "fd"};
        for (int f = 0; f < 4; f++) {
            snprintf(path, sizeof path, "/proc/%d/%s", pid, files[f]);
            if (open(path, O_RDONLY) >= 0) succeeded(path);
        }
    }
    int pidfd = syscall(SYS_pidfd_open, judge, 0);
    if (pidfd >= 0) succeeded("pidfd_open");
    TRY(syscall(SYS_pidfd_getfd, pidfd, 1, 0));
}

static void try_exec(void) {
    char *args[] = {"/bin/sh", "-c", "echo escaped", NULL}, *none[] = {NULL};
    execve("/bin/sh", args, none);
    int fd = open("/bin/sh", O_RDONLY);
    syscall(SYS_execveat, fd, "", args, none, 0x1000);
    if (system("true") == 0) succeeded("system");
}

static void try_daemon(void) {
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (fork() == 0) sleep(1000);
        _exit(0);
    }
    if (pid > 0) succeeded("fork");
    TRY(setsid());
    TRY(setpgid(0, 0));
}

static void try_kernel(void) {
    char buffer[256] = {0};
    TRY(syscall(SYS_io_uring_setup, 8, buffer));
    TRY(syscall(SYS_bpf, 0, buffer, 64));
    TRY(mount("none", "/tmp", "tmpfs", 0, ""));
    TRY(umount("/tmp"));
    TRY(unshare(CLONE_NEWUSER));
    TRY(unshare(CLONE_FS));
    TRY(syscall(SYS_setns, 0, 0));
    TRY(syscall(SYS_perf_event_open, buffer, 0, -1, -1, 0));
    TRY(syscall(SYS_userfaultfd, 0));
    TRY(syscall(SYS_keyctl, 0, -3, 0));
    TRY(syscall(SYS_memfd_create, "x", 0));
    TRY(syscall(SYS_personality, 0xffffffff));
    TRY(syscall(SYS_clone3, buffer, 64));
    TRY(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
    TRY(chroot("/"));
    TRY(msgget(IPC_PRIVATE, 0600 | IPC_CREAT));
    TRY(shmget(IPC_PRIVATE, 4096, 0600 | IPC_CREAT));
    TRY(syscall(SYS_setuid, 0));
    TRY(syscall(SYS_setresuid, 0, 0, 0));
    TRY(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
    TRY(prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0));
#ifdef __x86_64__
    /* The x32 form of getpid, and calls of the 32-bit table are other numbers. */
    TRY(syscall(0x40000000 | SYS_fork));
#endif
}

static void try_raising(void) {
    struct rlimit limit;
    cpu_set_t all;
    int resources[] = {RLIMIT_NPROC, RLIMIT_DATA, RLIMIT_AS, RLIMIT_CPU, RLIMIT_NOFILE, RLIMIT_FSIZE};
    for (int i = 0; i < 6; i++) {
        getrlimit(resources[i], &limit);
        if (limit.rlim_max == RLIM_INFINITY) succeeded("no limit");
        limit.rlim_cur = limit.rlim_max = RLIM_INFINITY;
        TRY(setrlimit(resources[i], &limit));
    }
    memset(&all, 0xff, sizeof all);
    TRY(sched_setaffinity(0, sizeof all, &all));
    TRY(setpriority(PRIO_PROCESS, 0, -5));
    TRY(setpriority(PRIO_PROCESS, 0, 5));
}

static void flood(void) {
    char line[4096];
    memset(line, 'x', sizeof line);
    for (;;) if (write(1, line, sizeof line) < 0) pause();
}

static void stop_myself(void) {
    for (int signal = 1; signal < 65; signal++) sigaction(signal, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    kill(getpid(), SIGSTOP);
    for (;;) pause();
}

/* What an honest program does must work: threads, its own files, its descriptors and nothing else. */
static int honest(int argc, char **argv) {
    pthread_t threads[8];
    char text[16] = {0};
    int sum = 0;
    for (int i = 0; i < 8; i++) if (pthread_create(&threads[i], NULL, add_one, &sum)) return 10;
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    if (sum != 8) return 11;
    int granted = open(argv[argc - 1], O_RDONLY);
    if (granted != 5 || read(granted, text, 15) < 1 || strcmp(text, "granted")) return 12;
    if (read(3, text, 15) != 5 || read(4, text, 15) != 5 || read(0, text, 1) != 0) return 13;
    for (int fd = 6; fd < 1024; fd++) if (fcntl(fd, F_GETFD) != -1) return 14;
    extern char **environ;
    if (!environ[0] || strcmp(environ[0], "ONLY=this") || environ[1]) return 15;
    struct sigaction action;
    sigaction(SIGPIPE, NULL, &action);
    if (action.sa_handler != SIG_DFL) return 16;
    fprintf(stderr, "to stderr\x1b[31m\n");
    printf("to stdout\n");
    return 0;
}

/* Leaves behind what it can, then ends. */
static int litter(void) {
    msgget(IPC_PRIVATE, 0600 | IPC_CREAT);
    for (int i = 0; i < 5; i++) {
        if (fork() == 0) {
            setsid();
            signal(SIGTERM, SIG_IGN);
            if (fork() == 0) for (;;) pause();
            _exit(0);
        }
    }
    return 0;
}

static int bomb(void) {
    for (;;) { fork(); setsid(); }
}

static int build(char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/made", folder);
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    if (fd < 0 || write(fd, "made", 4) != 4) return 20;
    pid_t pid = fork();
    if (pid == 0) {
        char *args[] = {"/bin/sh", "-c", "exit 7", NULL}, *none[] = {NULL};
        execve("/bin/sh", args, none);
        _exit(errno);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 7) return 21;
    return 0;
}

static int deny(char **command) {
#define REFUSE(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(SYS_unshare), REFUSE(SYS_mount), REFUSE(SYS_setns), REFUSE(SYS_pivot_root),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 30;
    execvp(command[0], command);
    return 31;
}

int main(int argc, char **argv) {
    const char *attack = argc > 1 ? argv[1] : "";
    if (!strcmp(attack, "deny")) return deny(argv + 2);
    if (argc > 2) judge = atoi(argv[2]);
    if (argc > 3) home = argv[3];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(attack, "honest")) return honest(argc, argv);
    if (!strcmp(attack, "nothing")) return 0;
    if (!strcmp(attack, "litter")) return litter();
    if (!strcmp(attack, "bomb")) return bomb();
    if (!strcmp(attack, "build")) return build(argv[2]);
    if (!strcmp(attack, "loop")) for (;;) {}
    if (!strcmp(attack, "flood")) flood();
    if (!strcmp(attack, "stop")) stop_myself();
    if (!strcmp(attack, "crash")) *(volatile int *)8 = 1;
#ifdef __x86_64__
    if (!strcmp(attack, "int80")) { int result; __asm__ volatile("int $0x80" : "=a"(result) : "a"(2)); return 1; }
#endif
    struct { const char *name; void (*run)(void); } attacks[] = {
        {"fork", try_fork}, {"threads", try_threads}, {"files", try_files}, {"sockets", try_sockets}, {"judge", try_judge},
        {"exec", try_exec}, {"daemon", try_daemon}, {"kernel", try_kernel}, {"raise", try_raising},
    };
    int known = 0;
    if (!strcmp(attack, "private memory")) known = 1, try_memory(MAP_PRIVATE);
    if (!strcmp(attack, "shared memory")) known = 1, try_memory(MAP_SHARED);
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
        if (!strcmp(attack, attacks[i].name)) known = 1, attacks[i].run();
    if (!known) return 99;
    return escapes ? 1 : 0;
}
