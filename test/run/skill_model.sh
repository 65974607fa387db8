# Random uploads, edits, deletes, commands and syncs by three users of two agents, beside a model of what each must see
# (test/lib/skills.py). SKILL_SECONDS, SKILL_SEED: longer, or one again.
# backends: jail

seed=${SKILL_SEED:-$SRANDOM}
python3 test/lib/skills.py "$SOCKET" "$STATE" "$BACKEND" "${SKILL_SECONDS:-5}" "$seed" > "$WORK/skills" 2>&1
status=$?
diag "seed $seed: $(head -1 "$WORK/skills")"
if [ "$status" = 0 ]; then pass 'every user sees what the model says, and no byte of a public layer changes'; else
    fail 'every user sees what the model says, and no byte of a public layer changes' "$(tail -20 "$WORK/skills")"
fi
like 'all kinds of steps were taken' "$(head -1 "$WORK/skills")" \
    'command [0-9]+ .*public upload [0-9]+ .*remove [0-9]+ .*upload [0-9]+ .*write [0-9]+'
