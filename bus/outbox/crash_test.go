package outbox

const childEnv = "OUTBOX_TEST_CHILD"

func child(string) {}
