// Command pq is the command-line client of pqbridge's priority queues. It speaks
// NATS only, and finds its way there as the nats command does: by contexts, by
// NATS_* variables, by flags.
//
// It exits with 0 when all went well, 1 after a failure, 2 when it was called
// wrongly, 3 when there was nothing (an empty queue, no such item), and 4 when
// nothing was done because no bridge could do it: trying again may help.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/doctor"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/top"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	s := session.New(ctx, os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, ends()...)
	go func() {
		<-signals
		stop()
		<-signals // a second one ends pq at once
		s.Programs.Kill()
		os.Exit(session.ExitInterrupted)
	}()
	os.Exit(execute(s, os.Args[1:]))
}

// ends are the signals that end pq. A closed terminal sends SIGHUP, which ends pq unless it
// was started with nohup.
func ends() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// run is the program, signals aside: it returns the exit code.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return execute(session.New(ctx, env, stdin, stdout, stderr), args)
}

// execute runs a command and returns the exit code.
func execute(s *session.Session, args []string) int {
	defer s.Close()
	return s.Report(command(s, args))
}

func init() {
	cobra.EnableCommandSorting = false // the help begins with the most used commands
}

// rootCommand builds pq with all its commands.
func rootCommand(s *session.Session) *cobra.Command {
	showVersion := false
	root := &cobra.Command{
		Use:           "pq",
		Long:          helpProgram,
		SilenceErrors: true, // report prints them
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case showVersion:
				return printVersion(s)
			case len(args) > 0:
				return session.UnknownCommand(c, args[0])
			}
			return printHelp(s, c)
		},
	}
	root.SetIn(s.Stdin)
	root.SetOut(s.Stdout)
	root.SetErr(s.Stderr)
	root.Flags().BoolVar(&showVersion, "version", false, "show the version of pq")
	s.Global.Define(root.PersistentFlags())
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand(s))
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Items", []*cobra.Command{
			pushCommand(s), popCommand(s), peekCommand(s), consumeCommand(s),
			ackCommand(s), nackCommand(s), backCommand(s), extendCommand(s), terminateCommand(s),
			listCommand(s), getCommand(s), resultCommand(s), cancelCommand(s), moveCommand(s), rmCommand(s), revokeCommand(s),
		}},
		{"Queues", []*cobra.Command{
			lsCommand(s), infoCommand(s), explainCommand(s), configCommand(s), pauseCommand(s), resumeCommand(s),
			purgeCommand(s), deleteCommand(s), deadCommand(s), keysCommand(s), keyCommand(s),
			scheduleCommand(s), sourceCommand(s), linkCommand(s), exportCommand(s), importCommand(s),
		}},
		{"Operation", []*cobra.Command{
			top.Command(s), eventsCommand(s), benchCommand(s), doctor.Command(s, version()),
			clusterCommand(s), permissionsCommand(s), demoCommand(s), completionCommand(s), versionCommand(s),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("Operation")
	root.AddCommand(flagsTopic(root.PersistentFlags()), pagesTopic())
	defineCompletion(s, root)
	return root
}

// command runs the command that the arguments ask for.
func command(s *session.Session, args []string) error {
	var err error
	if s.Global, err = session.GlobalsFrom(s.Env); err != nil {
		return err
	}
	root := rootCommand(s)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		unquoteUsage(root)
	}
	var helpErr error // cobra's functions for help return none
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { helpErr = printHelp(s, c) })
	root.SetArgs(arranged(root, args))
	c, err := root.ExecuteContextC(s.Context)
	err = errors.Join(err, helpErr)
	if usage := (*session.UsageError)(nil); errors.As(err, &usage) && usage.Command == nil {
		usage.Command = c
	}
	// It comes from the client and from the connection, whichever is first. The hint says what to do.
	if refused := (*client.Error)(nil); errors.Is(err, nats.ErrPermissionViolation) && errors.As(err, &refused) {
		err = refused.Unwrap()
	}
	// The cause of the context's end is clearer than the error that follows from it.
	if cause := context.Cause(s.Context); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// release is set by the linker in released builds: -X main.release=1.2.3.
var release string

// version is the version of this build.
func version() string {
	if release != "" {
		return strings.TrimPrefix(release, "v")
	}
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "0.0.0-devel"
}

func versionCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "version", Args: session.Arguments(0, 0),
		Short:   "show the version of pq",
		Long:    `Shows the version of pq, as "pq --version" does. "pq info" shows the bridge's.`,
		Example: "  # for a script\n  pq version --json | jq -r .version",
		RunE:    func(*cobra.Command, []string) error { return printVersion(s) },
	}
}

func printVersion(s *session.Session) error {
	return s.Answer(map[string]string{"version": version()}, "pq %s", version())
}
