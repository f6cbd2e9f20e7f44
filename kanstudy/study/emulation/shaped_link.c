/* Ranks in network namespaces of their own, joined by a switch that delays and rates what they send.

   usage: shaped_link LATENCY_NS NS_PER_BYTE RANKS LOGS COMMAND [ARGUMENT...]

   Starts COMMAND once a rank, with RANK and LOCAL_RANK set, as host nodeRANK with the address 10.77.0.(RANK+1) on
   eth0, its output in LOGS/RANK/. What a rank sends leaves it one byte each NS_PER_BYTE, and arrives LATENCY_NS after
   its last byte left; nothing is lost and nothing is free (a token bucket would let a burst pass). The namespaces have
   no names: the kernel drops them with the last process in them, so nothing is left behind, however this ends.

   Exit code 0: every rank ended with 0. 1: one did not; the first is reported as torchrun reports it, the others are
   ended. 2: the link cannot be set up. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 16, MTU = 9000, FRAME = MTU + 64, BATCH = 32 };

typedef struct frame { struct frame *next; uint64_t due_ns; int length; unsigned char bytes[]; } frame;
typedef struct { frame *first, *last; } line;  /* from one rank to another: due times never fall */

static line lines[MOST_RANKS][MOST_RANKS];

static void fail(const char *what) { fprintf(stderr, "shaped_link: %s: %s\n", what, strerror(errno)); exit(2); }

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void request(int socket_, const char *interface, unsigned long what, struct ifreq *values, const char *name) {
    strncpy(values->ifr_name, interface, IFNAMSIZ - 1);
    if (ioctl(socket_, what, values) < 0) fail(name);
}

static void address(int socket_, unsigned long what, uint32_t value, const char *name) {
    struct ifreq values = {0};
    struct sockaddr_in *own = (struct sockaddr_in *)&values.ifr_addr;
    own->sin_family = AF_INET;
    own->sin_addr.s_addr = htonl(value);
    request(socket_, "eth0", what, &values, name);
}

/* A fresh namespace for this process and what it starts from now on; the switch's end of its network device. */
static int enter_node(int rank) {
    char host[16];
    if (unshare(CLONE_NEWNET | CLONE_NEWUTS) < 0) fail("a network namespace of its own (needs root)");
    snprintf(host, sizeof host, "node%d", rank);
    if (sethostname(host, strlen(host)) < 0) fail("host name");
    int port = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), socket_ = socket(AF_INET, SOCK_DGRAM, 0);
    if (port < 0) fail("/dev/net/tun");
    if (socket_ < 0) fail("socket");
    struct ifreq values = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    request(port, "eth0", TUNSETIFF, &values, "TAP device");
    values = (struct ifreq){.ifr_hwaddr = {ARPHRD_ETHER, {2, 0, 0, 0, 0, rank + 1}}};
    request(socket_, "eth0", SIOCSIFHWADDR, &values, "hardware address");
    values = (struct ifreq){.ifr_mtu = MTU};
    request(socket_, "eth0", SIOCSIFMTU, &values, "MTU");
    address(socket_, SIOCSIFADDR, 0x0a4d0001u + rank, "address");
    address(socket_, SIOCSIFNETMASK, 0xffffff00u, "netmask");
    for (int i = 0; i < 2; i++) {
        values = (struct ifreq){.ifr_flags = IFF_UP | IFF_RUNNING};
        request(socket_, i ? "eth0" : "lo", SIOCSIFFLAGS, &values, "interface up");
    }
    close(socket_);
    return port;
}

static void redirect(const char *logs, int rank, const char *file, int descriptor) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d/%s", logs, rank, file);
    int log = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (log < 0 || dup2(log, descriptor) < 0) fail(path);
    close(log);
}

static pid_t start(int rank, const char *logs, char **command) {
    pid_t parent = getpid(), child = fork();
    if (child < 0) fail("fork");
    if (child > 0) return child;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent) _exit(2);  /* no rank outlives its link */
    char text[4096];
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    setenv("LOCAL_RANK", text, 1);  /* the cores are this machine's, whatever its name */
    snprintf(text, sizeof text, "%s/%d/error.json", logs, rank);
    setenv("TORCHELASTIC_ERROR_FILE", text, 1);
    redirect(logs, rank, "stdout.log", STDOUT_FILENO);
    redirect(logs, rank, "stderr.log", STDERR_FILENO);
    execvp(command[0], command);
    fail(command[0]);
    return 0;
}

/* Hand over what is due; the time at which the next frame will be. */
static uint64_t deliver(const int *ports, int ranks) {
    uint64_t next = UINT64_MAX, now = now_ns();
    for (int from = 0; from < ranks; from++) for (int to = 0; to < ranks; to++) {
        line *queue = &lines[from][to];
        while (queue->first && queue->first->due_ns <= now) {
            frame *sent = queue->first;
            if (write(ports[to], sent->bytes, sent->length) < 0 && errno != EIO) fail("delivery");  /* EIO: not up yet */
            queue->first = sent->next;
            free(sent);
        }
        if (queue->first && queue->first->due_ns < next) next = queue->first->due_ns;
    }
    return next;
}

static void enqueue(int from, int to, const unsigned char *bytes, int length, uint64_t due_ns) {
    frame *sent = malloc(sizeof *sent + length);
    if (!sent) fail("memory");
    *sent = (frame){.due_ns = due_ns, .length = length};
    memcpy(sent->bytes, bytes, length);
    line *queue = &lines[from][to];
    if (queue->first) queue->last->next = sent; else queue->first = sent;
    queue->last = sent;
}

/* Take what a rank sends: it leaves byte after byte, and arrives a latency later. */
static void accept_frames(const int *ports, int ranks, int from, uint64_t latency_ns, double ns_per_byte) {
    static unsigned char bytes[FRAME];
    static uint64_t free_ns[MOST_RANKS];  /* when a rank's wire is free again */
    for (int i = 0; i < BATCH; i++) {
        int length = read(ports[from], bytes, sizeof bytes);
        if (length <= 0) return;
        uint64_t now = now_ns();
        free_ns[from] = (free_ns[from] > now ? free_ns[from] : now) + (uint64_t)(length * ns_per_byte);
        for (int to = 0; to < ranks; to++)  /* the last byte of a hardware address is its rank, or all hear it */
            if (to != from && ((bytes[0] & 1) || bytes[5] == to + 1))
                enqueue(from, to, bytes, length, free_ns[from] + latency_ns);
    }
}

/* Look for ranks that ended; the number of those that are left. A failure ends all. */
static int reap(const pid_t *children, int ranks, int left) {
    int status;
    for (pid_t child; (child = waitpid(-1, &status, WNOHANG)) > 0; left--) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        int rank = 0;
        while (rank < ranks && children[rank] != child) rank++;
        fprintf(stderr, "rank      : %d (local_rank: %d)\n  exitcode  : %d\n", rank, rank,
                WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
        exit(1);
    }
    return left;
}

static void woken(int signal_) { (void)signal_; }

int main(int count, char **words) {
    if (count < 6) { fprintf(stderr, "usage: shaped_link LATENCY_NS NS_PER_BYTE RANKS LOGS COMMAND...\n"); return 2; }
    uint64_t latency_ns = strtoull(words[1], NULL, 10);
    double ns_per_byte = strtod(words[2], NULL);
    int ranks = atoi(words[3]), ports[MOST_RANKS];
    if (ranks < 1 || ranks > MOST_RANKS) { fprintf(stderr, "shaped_link: 1 to %d ranks\n", MOST_RANKS); return 2; }
    pid_t children[MOST_RANKS];
    for (int rank = 0; rank < ranks; rank++) {
        ports[rank] = enter_node(rank);
        children[rank] = start(rank, words[4], words + 5);
    }
    struct sched_param urgent = {.sched_priority = 1};  /* a switch that waits for a core is a slower link */
    if (sched_setscheduler(0, SCHED_FIFO, &urgent) < 0) fail("real-time priority (needs root)");
    prctl(PR_SET_TIMERSLACK, 1);
    sigset_t ended, asleep;
    struct sigaction action = {.sa_handler = woken};
    sigaction(SIGCHLD, &action, NULL);
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, &asleep);
    sigdelset(&asleep, SIGCHLD);
    struct pollfd waiting[MOST_RANKS];
    for (int left = ranks; (left = reap(children, ranks, left)) > 0;) {
        uint64_t next = deliver(ports, ranks), now = now_ns(), wait = next > now ? next - now : 0;
        struct timespec time = {wait / 1000000000ull, wait % 1000000000ull};
        for (int rank = 0; rank < ranks; rank++) waiting[rank] = (struct pollfd){ports[rank], POLLIN, 0};
        if (ppoll(waiting, ranks, next == UINT64_MAX ? NULL : &time, &asleep) <= 0) continue;
        for (int rank = 0; rank < ranks; rank++)
            if (waiting[rank].revents & POLLIN) accept_frames(ports, ranks, rank, latency_ns, ns_per_byte);
    }
    return 0;
}
