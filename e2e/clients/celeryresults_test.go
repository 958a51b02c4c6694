package clients_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// The queues of results of programs that have ended are no queues without workers, wherever one looks, though one of them has a result.
// They all end by themselves.
func TestCeleryLateResults(t *testing.T) {
	nightly.Only(t, "TestPythonClient has the settings of these queues")
	t.Parallel()
	const programs = 6 // with the one that runs the others
	runCelery(t, testenv.Daemon(t), "celery_late.py", nil, map[string]func(*testing.T, *testenv.Process){
		"look": func(t *testing.T, p *testenv.Process) {
			pq := func(args ...string) string {
				out, err := pqd.Command(t, testenv.Build(t, "cmd/pq"), append([]string{"--server", p.URL}, args...)...).CombinedOutput()
				if err != nil {
					t.Errorf("pq %s: %v", args, err)
				}
				return string(out)
			}
			list := pq("ls")
			queues := regexp.MustCompile(`(?m)^(\S{36}) .*  Celery results$`).FindAllStringSubmatch(list, -1)
			if len(queues) != programs || strings.Contains(list, "no workers") {
				t.Errorf("pq ls says, of %d queues of results:\n%s", programs, list)
			}
			for _, queue := range queues {
				if config := pq("config", queue[1]); !regexp.MustCompile(`(?m)^expire_empty=1h0m0s$`).MatchString(config) {
					t.Errorf("%s stays:\n%s", queue[1], config)
				}
			}
			if says := pq("doctor"); !strings.Contains(says, "7 queues, nothing to remark") {
				t.Errorf("pq doctor says:\n%s", says)
			}
			_, overview := pqd.Get(t, p.HTTP+"/v1/overview")
			if found := strings.Count(overview, `"replies":true`); found != programs {
				t.Errorf("to the console %d queues are those of results, expected %d: %s", found, programs, overview)
			}
		},
	}, "look")
}
