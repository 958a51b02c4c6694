// The driver of nats.c for clients/cases_test.go: driver nats://127.0.0.1:4222
#include <nats/nats.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static natsConnection *nc;
static jsCtx *js;
static natsMsg *item; // the last one with a reply subject

// Bytes are escaped as in URLs.
static void word(const char *separator, const char *bytes, int size) {
    fputs(separator, stdout);
    for (int i = 0; i < size; i++)
        printf("%%%02X", (unsigned char)bytes[i]);
}

static void text(const char *separator, const char *text) { word(separator, text, (int)strlen(text)); }

static int unescape(char *word) {
    char *to = word;
    for (char *from = word; *from; to++) {
        if (*from == '%') {
            const char digits[] = {from[1], from[2], 0};
            *to = (char)strtol(digits, NULL, 16);
            from += 3;
        } else {
            *to = *from++;
        }
    }
    *to = 0;
    return (int)(to - word);
}

static void show_error(natsStatus s, jsErrCode code) {
    char codes[32];
    snprintf(codes, sizeof codes, "%d", (int)code);
    const char *words[] = {"other", "no responders", "timeout", "refused"};
    text("", "error");
    text("\t", words[code != 0 ? 3 : s == NATS_NO_RESPONDERS ? 1 : s == NATS_TIMEOUT ? 2 : 0]);
    text("\t", "0"); // js_PublishMsg does not show the code
    text("\t", codes);
    const char *more = nats_GetLastError(NULL);
    text("\t", code != 0 && more ? more : natsStatus_GetText(s));
    puts("");
}

static void show_message(natsMsg *m) {
    const char *reply = natsMsg_GetReply(m);
    text("", "message");
    word("\t", natsMsg_GetData(m), natsMsg_GetDataLength(m));
    text("\t", reply ? reply : "");
    const char **names = NULL;
    int count = 0;
    if (natsMsgHeader_Keys(m, &names, &count) == NATS_OK) {
        for (int i = 0; i < count; i++) {
            const char **values = NULL;
            int n = 0;
            natsMsgHeader_Values(m, names[i], &values, &n);
            for (int j = 0; j < n; j++) {
                text("\t", names[i]);
                text("\t", values[j]);
            }
            free(values);
        }
        free(names);
    }
    puts("");
    if (reply) {
        natsMsg_Destroy(item);
        item = m;
    } else {
        natsMsg_Destroy(m);
    }
}

static natsStatus publish(natsMsg *m, int64_t timeout, jsErrCode *code) {
    jsPubAck *ack = NULL;
    jsPubOptions options;
    jsPubOptions_Init(&options);
    options.MaxWait = timeout;
    natsStatus s = js_PublishMsg(&ack, js, m, &options, code);
    if (s != NATS_OK)
        return s;
    char seq[32];
    snprintf(seq, sizeof seq, "%llu", (unsigned long long)ack->Sequence);
    text("", "stored");
    text("\t", ack->Stream);
    text("\t", seq);
    text("\t", ack->Duplicate ? "true" : "false");
    puts("");
    jsPubAck_Destroy(ack);
    return NATS_OK;
}

static natsStatus many(const char *inbox, natsMsg *m, int64_t timeout) {
    natsSubscription *sub = NULL;
    natsStatus s = natsConnection_SubscribeSync(&sub, nc, inbox);
    if (s == NATS_OK)
        s = natsConnection_PublishMsg(nc, m);
    for (bool last = false; s == NATS_OK && !last;) {
        natsMsg *answer = NULL;
        s = natsSubscription_NextMsg(&answer, sub, timeout);
        if (s != NATS_OK)
            break;
        const char *status = NULL;
        last = natsMsgHeader_Get(answer, "Status", &status) == NATS_OK;
        show_message(answer);
    }
    natsSubscription_Destroy(sub);
    return s;
}

static void show_other(const char *text1, const char *text2) {
    char all[128];
    snprintf(all, sizeof all, "%s%s", text1, text2);
    text("", "error");
    text("\t", "other");
    text("\t", "0");
    text("\t", "0");
    text("\t", all);
    puts("");
}

static natsStatus ack_sync(natsMsg *m, jsOptions *options) { return natsMsg_AckSync(m, options, NULL); }

// A message that no subscription of JetStream has brought may crash these functions.
static natsStatus in_child(natsStatus (*settle)(natsMsg *, jsOptions *)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(settle(item, NULL));
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
        show_other("the function crashes: ", strsignal(WTERMSIG(status)));
        return NATS_OK;
    }
    return WEXITSTATUS(status);
}

static void run(char **words, int count) {
    for (int i = 0; i < count; i++)
        if (i != 2)
            unescape(words[i]);
    const char *what = words[0];
    int size = unescape(words[2]);
    int64_t timeout = atoll(words[3]);
    natsMsg *m = NULL, *answer = NULL;
    natsInbox *inbox = NULL;
    jsErrCode code = 0;
    natsInbox_Create(&inbox);
    natsStatus s = natsMsg_Create(&m, *words[1] ? words[1] : "none", strcmp(what, "many") ? NULL : inbox, words[2], size);
    for (int i = 4; s == NATS_OK && i + 1 < count; i += 2)
        s = natsMsgHeader_Add(m, words[i], words[i + 1]);
    if (s != NATS_OK) {
    } else if (!strcmp(what, "publish")) {
        s = publish(m, timeout, &code);
    } else if (!strcmp(what, "request")) {
        s = natsConnection_RequestMsg(&answer, nc, m, timeout);
        if (s == NATS_OK)
            show_message(answer);
    } else if (!strcmp(what, "many")) {
        s = many(inbox, m, timeout);
    } else if (!strcmp(what, "send")) {
        s = natsConnection_PublishMsg(nc, m);
    } else if (!strcmp(what, "ack")) {
        s = in_child(natsMsg_Ack);
    } else if (!strcmp(what, "ack sync")) {
        s = in_child(ack_sync);
    } else if (!strcmp(what, "nak")) {
        s = in_child(natsMsg_Nak);
    } else if (!strcmp(what, "term")) {
        s = in_child(natsMsg_Term);
    } else if (!strcmp(what, "in progress")) {
        s = in_child(natsMsg_InProgress);
    } else {
        show_other("a message has no ", what);
    }
    if (s != NATS_OK)
        show_error(s, code);
    natsMsg_Destroy(m);
    natsInbox_Destroy(inbox);
}

int main(int argc, char **argv) {
    natsStatus s = argc == 2 ? natsConnection_ConnectTo(&nc, argv[1]) : NATS_INVALID_ARG;
    if (s == NATS_OK)
        s = natsConnection_JetStream(&js, nc, NULL);
    if (s != NATS_OK) {
        fprintf(stderr, "connect: %s\n", natsStatus_GetText(s));
        return 1;
    }
    char *line = NULL;
    size_t room = 0;
    for (ssize_t size; (size = getline(&line, &room, stdin)) > 0;) {
        line[strcspn(line, "\n")] = 0;
        char *words[64], *rest = line;
        int count = 0;
        for (char *found; count < 64 && (found = strsep(&rest, "\t"));)
            words[count++] = found;
        if (count >= 4)
            run(words, count);
        puts(".");
        fflush(stdout);
    }
    free(line);
    natsMsg_Destroy(item);
    jsCtx_Destroy(js);
    natsConnection_Destroy(nc);
    nats_Close();
    return 0;
}
