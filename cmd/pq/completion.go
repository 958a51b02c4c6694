package main

import (
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// completeCommand is what the shells' scripts call: pq __complete <words>…, the
// last of which is being typed. It prints what that may become.
const completeCommand = "__complete"

// scripts have the shells ask pq itself.
var scripts = map[string]string{
	"bash": `_pq() {
	local IFS=$'\n' found word=${COMP_WORDS[COMP_CWORD]}
	local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
	# bash takes = for a word of its own.
	if [[ $word == = ]]; then
		word=
		words=("${words[@]:0:COMP_CWORD-2}" "${words[COMP_CWORD-2]}=")
	elif [[ COMP_CWORD -ge 2 && ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then
		words=("${words[@]:0:COMP_CWORD-3}" "${words[COMP_CWORD-3]}=$word")
	fi
	found=$(pq __complete "${words[@]}" 2>/dev/null)
	COMPREPLY=()
	if [[ $found == :files ]]; then
		compopt -o default
		return
	fi
	[[ ${words[-1]} == *=* ]] && found=${found//${words[-1]%%=*}=/}
	COMPREPLY=($(compgen -W "$found" -- "$word"))
	[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -F _pq pq
`,
	"zsh": `#compdef pq
_pq() {
	local -a found
	found=("${(@f)$(pq __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ "$found" == ":files" ]]; then _files; elif [[ -n "$found" ]]; then compadd -- "${found[@]}"; fi
}
compdef _pq pq
`,
	"fish": `complete -c pq -f -a '(set -l words (commandline -opc); pq __complete $words[2..-1] (commandline -ct) 2>/dev/null | string match -v :files)'
complete -c pq -n 'set -l words (commandline -opc); test (pq __complete $words[2..-1] (commandline -ct) 2>/dev/null)"" = :files' -F
`,
}

func completionCommand() *command {
	return &command{
		name: "completion", args: "bash|zsh|fish", min: 1, max: 1,
		short: "print a script for shell completion",
		long: `Prints a script that lets a shell complete commands, flags and the names of
queues.`,
		examples: []example{
			{"bash: in ~/.bashrc", "source <(pq completion bash)"},
			{"zsh: in ~/.zshrc, after compinit", "source <(pq completion zsh)"},
			{"fish", "pq completion fish > ~/.config/fish/completions/pq.fish"},
		},
		run: func(s *session, args []string) error {
			script, ok := scripts[args[0]]
			if !ok {
				return usagef("the shell %q: expected bash, zsh or fish", args[0])
			}
			return s.print(script)
		},
	}
}

// complete prints what the last word may become. Whatever goes wrong is no news
// for somebody who is typing.
func (s *session) complete(words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	for _, candidate := range s.candidates(words[:len(words)-1], words[len(words)-1]) {
		if err := s.printf("%s", candidate); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) candidates(before []string, word string) []string {
	leading := newFlags()
	s.global.define(leading)
	left, err := leading.leading(before)
	if err != nil {
		return s.flagValues(leading, before, word)
	}
	before = left
	c, rest := find(before)
	if c == nil {
		return beginning(s.commandWords(before, word), word)
	}
	f := newFlags()
	if c.flags != nil {
		c.flags(f)
	}
	s.global.define(f)
	args, err := f.parse(rest, c.verbatim)
	switch {
	case err != nil:
		return s.flagValues(f, rest, word)
	case strings.HasPrefix(word, "-"):
		name, value, given := strings.Cut(word, "=")
		if !given {
			return beginning(f.longNames(), word)
		}
		words := s.flagValues(f, []string{name}, value)
		for i := range words {
			words[i] = name + "=" + words[i]
		}
		return words
	case len(args) == 0 && c.name == "completion":
		return beginning(slices.Sorted(maps.Keys(scripts)), word)
	case len(args) == 0 && strings.Contains(c.args, "<queue>"):
		return beginning(s.queueNames(), word)
	case c.name == "config":
		return beginning(configWords(word), word)
	case c.verbatim:
		return files // a program to run, and what it works on
	}
	return nil
}

// files has the shell complete the names of files.
var files = []string{":files"}

// flagValues are what the value of the last flag may become.
func (s *session) flagValues(f *flags, before []string, word string) []string {
	if len(before) == 0 {
		return nil
	}
	name := strings.TrimLeft(before[len(before)-1], "-")
	fl := f.set.Lookup(name)
	if fl == nil {
		return nil
	}
	switch value, _ := flag.UnquoteUsage(fl); {
	case value == "file":
		return files
	case value == "state":
		return beginning([]string{"ready", "leased", "delayed"}, word)
	case value == "column":
		return beginning(slices.Sorted(maps.Keys(orders)), word)
	case name == "context":
		return beginning(s.contextNames(), word)
	}
	return nil
}

// contextNames are the contexts of the nats command.
func (s *session) contextNames() (names []string) {
	entries, err := os.ReadDir(filepath.Join(s.configDir(), "context"))
	if err != nil {
		return nil // there are none
	}
	for _, entry := range entries {
		if name, is := strings.CutSuffix(entry.Name(), ".json"); is {
			names = append(names, name)
		}
	}
	return names
}

// configWords are the fields of a configuration, or the values of the one that
// is being set.
func configWords(word string) (words []string) {
	values := map[string][]string{
		"ties": {"newest", "oldest"}, "overflow": {"refuse", "evict"}, "dead_letter_expired": {"true", "false"},
	}
	set, _, setting := strings.Cut(word, "=")
	for _, field := range configFields(client.Config{}) {
		switch {
		case !setting:
			words = append(words, field.name+"=")
		case field.name == set:
			for _, value := range values[set] {
				words = append(words, set+"="+value)
			}
		}
	}
	return words
}

func beginning(all []string, word string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, word) })
}

// commandWords are the words that can follow in the name of a command.
func (s *session) commandWords(before []string, word string) (words []string) {
	if strings.HasPrefix(word, "-") && len(before) == 0 {
		f := newFlags()
		s.global.define(f)
		return f.longNames()
	}
	if len(before) > 0 && before[0] == "help" {
		before = before[1:]
	}
	for _, g := range groups() {
		for _, c := range g.commands {
			name := strings.Fields(c.name)
			if len(name) > len(before) && slices.Equal(name[:len(before)], before) && !slices.Contains(words, name[len(before)]) {
				words = append(words, name[len(before)])
			}
		}
	}
	return words
}

func (f *flags) longNames() (names []string) {
	f.set.VisitAll(func(fl *flag.Flag) {
		if len(fl.Name) > 1 {
			names = append(names, "--"+fl.Name)
		}
	})
	return names
}

// completionPatience is how long somebody who presses the tab key waits.
const completionPatience = time.Second

func (s *session) queueNames() (names []string) {
	s.global.timeout = completionPatience
	c, err := s.connect()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, completionPatience)
	defer cancel()
	for name, err := range c.Queues(ctx) {
		if err != nil {
			break
		}
		names = append(names, name)
	}
	return names
}
