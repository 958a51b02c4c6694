package subjects_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/pqbridge/pqbridge/subjects"
)

func ExampleGrammar_Parse() {
	g, err := subjects.New("pq")
	if err != nil {
		log.Fatal(err)
	}
	for _, subject := range []string{"pq.jobs.push.-3", "pq.jobs.pop.first"} {
		s, err := g.Parse(subject)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(s.Queue, s.Verb, s.Priority)
	}
	// Output:
	// jobs push -3
	// subject "pq.jobs.pop.first": expected pop.min or pop.max after the queue's name
}

func ExampleGrammar_Build() {
	g, err := subjects.New("acme.pq")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Build(subjects.Subject{Queue: "jobs", Verb: subjects.PopMin}))
	fmt.Println(g.Build(subjects.Subject{Queue: "jobs", Verb: subjects.Get, ID: "a b"}))
	// Output:
	// acme.pq.jobs.pop.min <nil>
	//  id "a b": expected 1 to 128 of A-Z a-z 0-9 - _
}

// Who may do what, as allow lists for a server's configuration.
func ExamplePermissions() {
	g, err := subjects.New("pq")
	if err != nil {
		log.Fatal(err)
	}
	show := func(who string, p subjects.Permissions, err error) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(who)
		fmt.Println("  publish\n   ", strings.Join(p.Publish, "\n    "))
		fmt.Println("  subscribe\n   ", strings.Join(p.Subscribe, "\n    "))
	}
	p, err := g.Producer("jobs")
	show("producer of jobs", p, err)
	p, err = g.Consumer("jobs")
	show("consumer of jobs", p, err)
	p, err = g.Viewer("*")
	show("viewer of all queues", p, err)
	p, err = g.Admin("jobs")
	show("admin of jobs", p, err)
	show("bridge", g.Bridge(), nil)
	// Output:
	// producer of jobs
	//   publish
	//     pq.jobs.push
	//     pq.jobs.push.*
	//   subscribe
	//     _INBOX.>
	// consumer of jobs
	//   publish
	//     pq.jobs.pop.*
	//     pq.jobs.peek.*
	//     pq.jobs.ack.*.*
	//   subscribe
	//     _INBOX.>
	//     pq.jobs.event.*
	// viewer of all queues
	//   publish
	//     pq.*.info
	//     pq.*.list
	//     pq.*.get.*
	//     pq.*.peek.*
	//     pq.*.result.*
	//     pq.*.keys
	//     pq.*.key.*
	//     pq.*.schedules
	//     pq.*.schedule.*
	//     pq.*.sources
	//     pq.*.links
	//     pq._sys.cluster.status
	//     $SRV.*
	//     $SRV.*.pq
	//     $SRV.*.pq.*
	//   subscribe
	//     _INBOX.>
	//     pq.*.event.*
	// admin of jobs
	//   publish
	//     pq.jobs.info
	//     pq.jobs.list
	//     pq.jobs.get.*
	//     pq.jobs.peek.*
	//     pq.jobs.result.*
	//     pq.jobs.keys
	//     pq.jobs.key.*
	//     pq.jobs.schedules
	//     pq.jobs.schedule.*
	//     pq.jobs.sources
	//     pq.jobs.links
	//     pq.jobs.cancel.*
	//     pq.jobs.remove.*
	//     pq.jobs.move.*.*
	//     pq.jobs.requeue.*
	//     pq.jobs.revoke.*
	//     pq.jobs.admin.*
	//     pq.jobs.admin.key.*
	//     pq.jobs.admin.schedule.>
	//     pq.jobs.admin.source.>
	//     pq.jobs.admin.link.>
	//   subscribe
	//     _INBOX.>
	//     pq.jobs.event.*
	// bridge
	//   publish
	//     pq.*.event.*
	//     _INBOX.>
	//     _R_.>
	//     $SYS.REQ.USER.INFO
	//     $SRV.*
	//     $SRV.*.pq
	//     $SRV.*.pq.*
	//   subscribe
	//     pq.>
	//     _INBOX.>
	//     $SRV.*
	//     $SRV.*.pq
	//     $SRV.*.pq.*
}
