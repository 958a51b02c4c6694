package testenv

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// The part of the nats command that documentation and examples use: it sends and prints the same. The lines that it
// logs begin with a time and go to standard error.

// natsCommand is the command as a program. It returns the exit code.
func natsCommand(args []string, stdout, stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintln(stderr, "nats: error:", err)
		return 1
	}
	if len(args) < 2 {
		return fail(errors.New("expected req or pub"))
	}
	nc, err := nats.Connect(os.Getenv("NATS_URL"), nats.Timeout(Patience()))
	if err != nil {
		return fail(err)
	}
	defer nc.Close()
	var lines []string
	switch args[0] {
	case "req":
		lines, err = natsRequest(nc, args[1:])
	case "pub":
		lines, err = natsPublish(nc, args[1:])
	default:
		err = fmt.Errorf("this is no more than req and pub, found %s", args[0])
	}
	for _, line := range lines {
		if text, is := strings.CutPrefix(line, stamp); is {
			fmt.Fprintln(stderr, time.Now().Format(time.TimeOnly), text)
		} else {
			fmt.Fprintln(stdout, line)
		}
	}
	if err != nil {
		return fail(err)
	}
	return 0
}

// message reads the arguments that `nats req` and `nats pub` share.
func message(flags *flag.FlagSet, args []string) (*nats.Msg, error) {
	m := &nats.Msg{Header: make(nats.Header)}
	flags.SetOutput(io.Discard)
	flags.Func("H", "", func(s string) error {
		key, value, found := strings.Cut(s, ":")
		if !found {
			return errors.New("expected <name>:<value>")
		}
		m.Header.Add(strings.TrimSpace(key), strings.TrimSpace(value))
		return nil
	})
	// Flags may stand before, between and behind the arguments, up to "--".
	var words []string
	for rest := args; len(rest) > 0; {
		if err := flags.Parse(rest); err != nil {
			return nil, err
		}
		parsed := len(rest) - flags.NArg()
		if parsed > 0 && rest[parsed-1] == "--" {
			words = append(words, flags.Args()...)
			break
		}
		if rest = flags.Args(); len(rest) > 0 {
			words, rest = append(words, rest[0]), rest[1:]
		}
	}
	if len(words) != 2 {
		return nil, fmt.Errorf("found %q: expected a subject and a body", words)
	}
	m.Subject, m.Data = words[0], []byte(words[1])
	return m, nil
}

// stamp begins the lines that the nats command logs.
const stamp = "00:00:00 "

// natsRequest is `nats req`.
func natsRequest(nc *nats.Conn, args []string) (lines []string, err error) {
	flags := flag.NewFlagSet("nats req", flag.ContinueOnError)
	raw := flags.Bool("raw", false, "")
	replies := flags.Int("replies", 1, "")
	timeout := flags.Duration("timeout", Patience(), "")
	m, err := message(flags, args)
	if err != nil {
		return nil, err
	}
	m.Reply = nc.NewInbox()
	sub, err := nc.SubscribeSync(m.Reply)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sub.Unsubscribe()) }()
	if !*raw {
		lines = append(lines, fmt.Sprintf("%sSending request on %q", stamp, m.Subject))
	}
	if err := nc.PublishMsg(m); err != nil {
		return nil, err
	}
	for range *replies {
		reply, err := sub.NextMsg(*timeout)
		if errors.Is(err, nats.ErrNoResponders) {
			return append(lines, stamp+"No responders are available"), nil
		}
		if err != nil {
			return nil, err
		}
		if !*raw {
			lines = append(lines, stamp+"Received with rtt 1ms")
			for _, key := range slices.Sorted(maps.Keys(reply.Header)) {
				for _, value := range reply.Header[key] {
					lines = append(lines, stamp+key+": "+value)
				}
			}
		}
		lines = append(lines, body(reply))
	}
	return lines, nil
}

// natsPublish is `nats pub`.
func natsPublish(nc *nats.Conn, args []string) ([]string, error) {
	flags := flag.NewFlagSet("nats pub", flag.ContinueOnError)
	jetstream := flags.Bool("J", false, "")
	m, err := message(flags, args)
	if err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("%sPublished %d bytes to %q", stamp, len(m.Data), m.Subject)}
	if !*jetstream {
		return lines, errors.Join(nc.PublishMsg(m), nc.Flush())
	}
	js, err := nc.JetStream(nats.MaxWait(Patience()))
	if err != nil {
		return nil, err
	}
	ack, err := js.PublishMsg(m)
	if err != nil {
		return nil, err
	}
	stored := fmt.Sprintf("%sStored in Stream: %s Sequence: %d", stamp, ack.Stream, ack.Sequence)
	if ack.Duplicate {
		stored += " Duplicate: true"
	}
	return append(lines, stored), nil
}

// body is the body of a message as the nats command prints it.
func body(m *nats.Msg) string { return cmp.Or(string(m.Data), "nil body") }
