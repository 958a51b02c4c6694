package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/subjects"
)

// The roles that are about no queues: pqd itself, and the user with which it reads streams.
const (
	bridgeRole = "pqd"
	sourceRole = "source"
)

// roles are those of the grammar that are about queues.
var roles = map[string]func(subjects.Grammar, string) (subjects.Permissions, error){
	"producer": subjects.Grammar.Producer,
	"consumer": subjects.Grammar.Consumer,
	"requeuer": subjects.Grammar.Requeuer,
	"importer": subjects.Grammar.Importer,
	"caller":   subjects.Grammar.Caller,
	"taker":    subjects.Grammar.Taker,
	"viewer":   subjects.Grammar.Viewer,
	"admin":    subjects.Grammar.Admin,
}

func permissionsCommand(s *session.Session) *cobra.Command {
	var user, site, domain, account string
	var tenants, claims bool
	c := &cobra.Command{
		Use: "permissions <role> [<queue>...]", Args: session.Arguments(1, session.AnyNumber),
		ValidArgsFunction: completing(s, completePermissions),
		Short:             "print the permissions that a user needs",
		Long: `Prints a user for the configuration of a NATS server with the least permissions
that a role needs: producer, caller, consumer, requeuer, importer, taker, viewer or
admin of some queues, "*" for all, or pqd itself. It connects to nothing. A dead-letter
queue is another queue, which has to be named. A caller asks for results. A taker is
another store's pqd, which takes items by links. The role source is that of a user in
PQ_REMOTES, with which pqd reads streams for sources; it is followed by their names.

The user gets an inbox prefix of its own, so that nobody else reads its answers.
Its programs have to use it: pq --inbox-prefix, nats --inbox-prefix, and for taker and
source inbox_prefix in PQ_REMOTES.

With --tenants queues have names such as ACME.jobs, and the user is the operator's;
a tenant's own user has --prefix pq.ACME instead. --jwt prints what a user's JWT has in
its place, which an auth callout can put there.`,
		Example: `  # pqd's own user
  pq permissions pqd

  # the same, of a pqd with PQ_SITE=hub
  pq permissions pqd --site hub

  # the same, of a pqd with PQ_TENANTS
  pq permissions pqd --tenants

  # a worker on two queues
  pq permissions consumer mails images --as worker

  # an admin of a queue and its dead letters
  pq permissions admin jobs jobs-dead

  # pqd at the servers of a remote, where a source reads the stream ORDERS
  pq permissions source ORDERS --domain hub`,
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] != sourceRole {
				if domain != "" {
					return session.Usagef("--domain is about the role source")
				}
				p, err := permissionsOf(s.Global.Prefix, site, tenants, args[0], args[1:])
				if err == nil && args[0] != bridgeRole { // pqd's inboxes are its own already: it reads answers of bridges alone
					p, err = p.WithInbox(cmp.Or(user, args[0]))
				}
				if err != nil {
					return session.Usagef("%w", err)
				}
				return writePermissions(s, cmp.Or(user, args[0]), account, claims, p)
			}
			if site != "" || tenants {
				return session.Usagef("--site and --tenants are about the prefix, which the role source does not have")
			}
			user = cmp.Or(user, sourceRole)
			p, err := sourcePermissions(user, domain, args[1:])
			if err != nil {
				return session.Usagef("%w", err)
			}
			return writePermissions(s, user, account, claims, p)
		},
	}
	c.Flags().StringVar(&user, "as", user, "the user's `name`; that of the role if not given")
	c.Flags().StringVar(&site, "site", site, "the `name` of pqd's site: its PQ_SITE")
	c.Flags().StringVar(&account, "nsc", account, "print the command of nsc that makes the user in this `account`")
	c.Flags().BoolVar(&claims, "jwt", claims, "print the permissions as a user's JWT has them")
	c.Flags().BoolVar(&tenants, "tenants", tenants, "pqd has PQ_TENANTS, and the queues names such as ACME.jobs")
	c.Flags().StringVar(&domain, "domain", domain, "the JetStream `domain` of the streams of a source")
	return c
}

// completePermissions completes a role, and then queues.
func completePermissions(s *session.Session, _ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return beginning(append(slices.Sorted(maps.Keys(roles)), bridgeRole, sourceRole), word), cobra.ShellCompDirectiveNoFileComp
	}
	return beginning(queueNames(s), word), cobra.ShellCompDirectiveNoFileComp
}

// userClaims are the permissions in the claims of a user's JWT.
type userClaims struct {
	Pub allowed `json:"pub"`
	Sub allowed `json:"sub"`
}

type allowed struct {
	Allow []string `json:"allow"`
}

// writePermissions prints a user, as a server's configuration has it, for nsc if there is an account, or what claims have.
func writePermissions(s *session.Session, user, account string, claims bool, p subjects.Permissions) error {
	if claims && account != "" {
		return session.Usagef("--jwt and --nsc print different things: expected one of them")
	}
	if claims {
		return s.PrintJSON(userClaims{Pub: allowed{p.Publish}, Sub: allowed{p.Subscribe}})
	}
	if account != "" {
		for _, name := range []string{user, account} {
			if strings.ContainsAny(name, "'\r\n") {
				return session.Usagef("%q: expected a name without quotes", name)
			}
		}
		return s.Printf("nsc add user --account '%s' --name '%s' \\\n  --allow-pub '%s' \\\n  --allow-sub '%s'",
			account, user, strings.Join(p.Publish, ","), strings.Join(p.Subscribe, ","))
	}
	if s.Global.JSON {
		return s.PrintJSON(map[string][]string{"publish": p.Publish, "subscribe": p.Subscribe})
	}
	return s.Printf("{user: %s, password: $%s_PASSWORD, permissions: {\n  publish: %s\n  subscribe: %s\n}}",
		user, variable(user), patterns(p.Publish), patterns(p.Subscribe))
}

// sourcePermissions are what pqd needs where sources read streams, in either mode.
func sourcePermissions(user, domain string, streams []string) (p subjects.Permissions, err error) {
	if len(streams) == 0 {
		return p, errors.New("expected the streams that sources read")
	}
	prefix := "$JS.API."
	if domain != "" {
		prefix = "$JS." + domain + ".API."
	}
	for _, name := range append(streams, cmp.Or(domain, "x")) {
		if name == "" || strings.ContainsAny(name, " \t\r\n.*>/\\\"") {
			return p, fmt.Errorf("%q: expected the name of a stream, or a domain", name)
		}
	}
	for _, stream := range streams {
		for _, verb := range []string{"STREAM.INFO.%s", "STREAM.MSG.GET.%s", "CONSUMER.CREATE.%s.>", "CONSUMER.INFO.%s.>", "CONSUMER.MSG.NEXT.%s.>", "CONSUMER.RESET.%s.>", "CONSUMER.DELETE.%s.>"} {
			p.Publish = append(p.Publish, prefix+fmt.Sprintf(verb, stream))
		}
		p.Publish = append(p.Publish, "$JS.ACK."+stream+".>")
	}
	p.Subscribe = []string{"_INBOX." + user + ".>"}
	return p, nil
}

// permissionsOf adds up what a role needs for some queues.
func permissionsOf(prefix, site string, tenants bool, role string, queues []string) (p subjects.Permissions, err error) {
	grammar, err := subjects.New(prefix)
	if err == nil && site != "" {
		grammar, err = grammar.AtSite(site)
	}
	if err != nil {
		return p, err
	}
	if tenants {
		grammar = grammar.WithTenants()
	}
	may, known := roles[role]
	switch {
	case role != bridgeRole && site != "":
		return p, fmt.Errorf("the site %q: it is for pqd; a client at another site uses --prefix %s.%s", site, site, prefix)
	case role == bridgeRole && len(queues) == 0:
		return grammar.Bridge(), nil
	case role == bridgeRole:
		return p, fmt.Errorf("the queue %q: expected none, pqd serves all", queues[0])
	case !known:
		return p, fmt.Errorf("the role %q: expected producer, caller, consumer, requeuer, importer, taker, viewer, admin, pqd or source", role)
	case len(queues) == 0:
		return p, fmt.Errorf(`expected the queues of the %s, or "*"`, role)
	}
	for _, queue := range queues {
		one, err := may(grammar, queue)
		if err != nil {
			return p, err
		}
		p.Publish = append(p.Publish, one.Publish...)
		p.Subscribe = append(p.Subscribe, one.Subscribe...)
	}
	p.Publish, p.Subscribe = once(p.Publish), once(p.Subscribe)
	return p, nil
}

// once leaves out what has come before.
func once(patterns []string) (first []string) {
	for _, pattern := range patterns {
		if !slices.Contains(first, pattern) {
			first = append(first, pattern)
		}
	}
	return first
}

// patterns are a list in a NATS server's configuration.
func patterns(list []string) string {
	quoted := make([]string, len(list))
	for i, pattern := range list {
		quoted[i] = fmt.Sprintf("%q", pattern)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
