package gateway

import "github.com/pqbridge/pqbridge/subjects"

func bulkRemove(in *input) (*answer, *refusal)  { return bulk(in, subjects.AdminRemove) }
func bulkMove(in *input) (*answer, *refusal)    { return bulk(in, subjects.AdminMove) }
func bulkRevoke(in *input) (*answer, *refusal)  { return bulk(in, subjects.AdminRevoke) }
func bulkRequeue(in *input) (*answer, *refusal) { return bulk(in, subjects.AdminRequeue) }

// bulk does a page of a bulk operation.
func bulk(in *input, v subjects.Verb) (*answer, *refusal) {
	page, why := in.fields("where, and what else the operation has")
	if why != nil {
		return nil, why
	}
	return in.admin(v, page)
}
