package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// killAfter is how long a program may take to stop after SIGTERM.
const killAfter = 5 * time.Second

// exec runs the program for an item.
func (c *consuming) exec(ctx context.Context, item *client.Item) error {
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	cmd.Stdin = bytes.NewReader(item.Payload)
	cmd.Stdout, cmd.Stderr = c.session.Stdout, c.session.Stderr
	cmd.Env = c.environment(item)
	cmd.WaitDelay = killAfter
	err := c.session.Programs.Run(ctx, cmd)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == c.deadExit && ctx.Err() == nil { // otherwise pq has ended it
		return client.GiveUp(fmt.Errorf("%s: %w", c.command[0], err))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.command[0], err)
	}
	return nil
}

// environment has the variables about the item for a program.
func (c *consuming) environment(item *client.Item) []string {
	var env []string
	for name, value := range c.session.Env {
		env = append(env, name+"="+value)
	}
	env = append(env,
		"PQ_QUEUE="+item.Queue, "PQ_ID="+item.ID,
		fmt.Sprintf("PQ_PRIORITY=%d", item.Priority),
		fmt.Sprintf("PQ_DELIVERIES=%d", item.Deliveries),
		fmt.Sprintf("PQ_FAILURES=%d", item.Failures),
		fmt.Sprintf("PQ_INTERRUPTIONS=%d", item.Interruptions),
		fmt.Sprintf("PQ_RETURNS=%d", item.Returns),
		fmt.Sprintf("PQ_FENCE=%d", item.Fence),
		fmt.Sprintf("PQ_KEY_FENCE=%d", item.KeyFence),
		"PQ_KEY="+item.Key,
	)
	for name, values := range item.Header {
		env = append(env, "PQ_HEADER_"+variable(name)+"="+strings.Join(values, ", "))
	}
	return env
}

// variable makes a header's name one of a variable.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}
