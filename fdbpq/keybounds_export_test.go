package fdbpq

// LimitKeys has queues of a store keep fewer rows about keys.
func LimitKeys(s *Store, owing, set int64) { s.maxKeysOwing, s.maxKeysSet = owing, set }
