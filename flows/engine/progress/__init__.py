"""Who is told what while a run goes on."""
